//! Events of all kinds.

use intendant_core::{ChannelId, Key, NodeId, Tick};
use intendant_trace::{Access, Cause, Event, Mark, What};
use proptest::prelude::*;

fn number() -> impl Strategy<Value = u64> {
    proptest::num::u64::ANY
}

fn short() -> impl Strategy<Value = u16> {
    proptest::num::u16::ANY
}

fn what() -> impl Strategy<Value = What> {
    let node = || short().prop_map(NodeId);
    let access = || proptest::sample::select(vec![Access::Pull, Access::Push, Access::Set]);
    let cause = || {
        prop_oneof![
            Just(Cause::Asked),
            node().prop_map(Cause::Began),
            node().prop_map(Cause::Ended),
            Just(Cause::Ordered)
        ]
    };
    let mark = || proptest::sample::select(vec![Mark::Epoch, Mark::Checkpoint]);
    prop_oneof![
        Just(What::IntentBegan),
        Just(What::IntentEnded),
        Just(What::Asked),
        (node(), cause()).prop_map(|(to, cause)| What::Left { to, cause }),
        (node(), number()).prop_map(|(from, after)| What::Arrived { from, after }),
        Just(What::ReplicaSetUp),
        Just(What::ReplicaDropped),
        node().prop_map(|holder| What::HolderAdded { holder }),
        node().prop_map(|holder| What::HolderRemoved { holder }),
        node().prop_map(|to| What::Ordered { to }),
        (access(), node(), number()).prop_map(|(access, by, after)| What::Remote { access, by, after }),
        (access(), number()).prop_map(|(access, after)| What::Waited { access, after }),
        Just(What::Conflict),
        number().prop_map(|values| What::Synced { values }),
        proptest::num::u32::ANY.prop_map(|clock| What::Clock { clock }),
        (node(), number()).prop_map(|(to, bytes)| What::Sent { to, bytes }),
        number().prop_map(|meeting| What::Came { meeting }),
        number().prop_map(|meeting| What::WentOn { meeting }),
        (mark(), number()).prop_map(|(mark, number)| What::Marked { mark, number }),
    ]
}

/// Any event that can be written.
pub(crate) fn any() -> impl Strategy<Value = Event> {
    let key = proptest::option::of(0..u64::MAX);
    (number(), short(), key, what()).prop_map(|(at, channel, key, what)| Event {
        at: Tick(at),
        channel: ChannelId(channel),
        key: key.map(Key),
        what,
    })
}
