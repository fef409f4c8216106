//! Allowances and lists of urgent replicas in one thread. (They are not in `urgent.rs`, because model
//! checking compiles that file against other primitives as well.)

use super::urgent::Urgent;
use intendant_core::{ChannelId, Key};

#[test]
fn the_allowance_weighs_what_readers_lack_against_deltas() {
    let two = Urgent::new(1, 2);
    assert_eq!([2, 8, 64].map(|nodes| Urgent::new(1, nodes).first_allowance()), [4, 1, 1]);
    // 10 updates changed the value by 1 %. A quarter of the change doubles the allowance; four times as many
    // nodes halve it.
    assert_eq!(two.allowance(10, 0.01), 13);
    assert_eq!(two.allowance(10, 0.0025), 26);
    assert_eq!(Urgent::new(1, 8).allowance(10, 0.01), 6);
    assert_eq!(two.allowance(1, 0.5), 1);
    assert_eq!(two.allowance(0, 0.5), 1);
    assert_eq!(two.allowance(5, 0.0), 1000);
    assert_eq!(two.allowance(5, f64::INFINITY), 1);
    assert_eq!(two.allowance(5, f64::NAN), 0, "a run that has diverged ends soon");
}

#[test]
fn each_channel_takes_its_own_keys_once() {
    let urgent = Urgent::new(2, 2);
    let mut keys = Vec::new();
    urgent.take(ChannelId(0), &mut keys);
    assert!(keys.is_empty());
    urgent.list(ChannelId(0), Key(4));
    urgent.list(ChannelId(1), Key(7));
    urgent.list(ChannelId(0), Key(2));
    urgent.take(ChannelId(0), &mut keys);
    assert_eq!(keys, [Key(4), Key(2)]);
    keys.clear();
    urgent.take(ChannelId(0), &mut keys);
    assert!(keys.is_empty());
    urgent.take(ChannelId(1), &mut keys);
    assert_eq!(keys, [Key(7)]);
}
