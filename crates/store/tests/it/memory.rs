//! Which memory a store takes from the allocator, and that it gives all of it back.

use intendant_core::{Initialiser, Key, Layout};
use intendant_store::{Flat, Store};
use std::alloc::{GlobalAlloc, System};
use std::cell::Cell;
use std::sync::Arc;

/// The system's allocator, with counters for each thread.
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

thread_local! {
    /// Bytes that this thread allocated and did not free. A block that is freed with a size other than that
    /// of its allocation leaves a difference.
    static BYTES: Cell<isize> = const { Cell::new(0) };
    /// Blocks that this thread allocated.
    static BLOCKS: Cell<usize> = const { Cell::new(0) };
}

fn count(bytes: isize, blocks: usize) {
    BYTES.set(BYTES.get() + bytes);
    BLOCKS.set(BLOCKS.get() + blocks);
}

// SAFETY: every call is passed unchanged to the system's allocator; counting allocates nothing, because the
// counters are initialised at compile time and have no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: std::alloc::Layout) -> *mut u8 {
        count(layout.size() as isize, 1);
        // SAFETY: the caller's promises are passed on to the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: std::alloc::Layout) {
        count(-(layout.size() as isize), 0);
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: std::alloc::Layout) -> *mut u8 {
        count(layout.size() as isize, 1);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: std::alloc::Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize, 1);
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// Bytes of a slot: a state of four bytes and a place.
const SLOT_BYTES: usize = 8;

/// Bytes that `run` allocated and did not free, and the number of blocks that it allocated.
fn taken<R>(run: impl FnOnce() -> R) -> (R, isize, usize) {
    let (bytes, blocks) = (BYTES.get(), BLOCKS.get());
    let returned = run();
    (returned, BYTES.get() - bytes, BLOCKS.get() - blocks)
}

fn layout() -> Arc<Layout> {
    let builder = Layout::builder().range("rows", 3_000, 8).range("columns", 500, 8).range("wide", 200, 700);
    Arc::new(builder.shards(4).build().expect("a valid layout"))
}

fn fill(store: &Store<u32, f64>) {
    for key in 0..store.layout().keys() {
        store.latch(Key(key)).allocate();
    }
}

/// A sparse store of 200 values, each in a block of its own, has more blocks than fit into its first table.
#[test]
fn a_store_gives_back_what_it_took() {
    let builder = Layout::builder().range("rows", 3_000, 8).range("wide", 200, 9_000);
    let layout = Arc::new(builder.shards(4).build().expect("a valid layout"));
    for make in [Store::<u32, f64>::dense, Store::sparse] {
        let ((), left, blocks) = taken(|| {
            let store = make(Arc::clone(&layout));
            fill(&store);
            for key in (0..store.layout().keys()).step_by(3) {
                store.latch(Key(key)).release();
            }
            fill(&store);
        });
        assert_eq!(left, 0, "bytes that were not freed, or were freed with another size");
        assert!(blocks > 0);
    }
}

/// A dense store computes from the layout how many values it may have.
#[test]
fn a_dense_store_has_room_for_the_keys_and_for_little_more() {
    let layout = layout();
    let values: usize = (0..layout.keys()).map(|key| layout.len(Key(key)) * size_of::<f64>()).sum();
    let (store, bytes, blocks) = taken(|| {
        let store = Store::<u32, f64>::dense(Arc::clone(&layout));
        fill(&store);
        store
    });
    let slots = layout.keys() as usize * SLOT_BYTES;
    let bound = (values + slots) * 5 / 4 + 16 * 1024;
    assert!(values as isize <= bytes && bytes < bound as isize, "{bytes} bytes for {values} in values");
    // 3,500 values of 64 bytes, 128 to a block; 200 values of 5,600 bytes, eight to a block.
    assert!(blocks < 28 + 25 + 30, "{blocks} blocks");
    drop(store);
}

/// Where the layout's second range begins does not change how much room its keys get.
#[test]
fn room_does_not_grow_with_the_numbers_of_keys() {
    let bytes = |before: u64| {
        let layout = Layout::builder().range("before", before, 1).range("after", 40, 8).shards(4).build();
        let layout = Arc::new(layout.expect("a valid layout"));
        let (store, bytes, _) = taken(|| {
            let store = Store::<u32, f64>::dense(layout);
            (before..before + 40).for_each(|key| _ = store.latch(Key(key)).allocate());
            store
        });
        drop(store);
        // The number of slots depends on the number of keys.
        bytes - before as isize * SLOT_BYTES as isize
    };
    let (few, many) = (bytes(64), bytes(64 * 64));
    assert!((many - few).abs() < 4 * 1024, "{few} bytes behind few keys, {many} behind many");
}

/// Above a few MiB, the store cuts values from huge pages; slots and the plain array lie entirely on such
/// pages.
#[test]
fn large_stores_take_at_most_a_huge_page_more_and_give_everything_back() {
    const KEYS: u64 = 300_000;
    // 56 bytes: neither a divisor of a page nor of a line.
    let layout = Arc::new(Layout::builder().range("k", KEYS, 7).build().expect("a valid layout"));
    let values = KEYS as usize * 56;
    let element = |key: u64, at: usize| (key * 8 + at as u64) as f64;
    for (number, make) in [Store::<u32, f64>::dense, Store::sparse].into_iter().enumerate() {
        let ((), left, _) = taken(|| {
            let (store, bytes, _) = taken(|| {
                let store = make(Arc::clone(&layout));
                for key in 0..KEYS {
                    let mut entry = store.latch(Key(key));
                    entry.allocate().iter_mut().enumerate().for_each(|(at, x)| *x = element(key, at));
                }
                store
            });
            // Slots of sparse stores are entries of tables, and boxes. At the end of each page, less than a
            // block is free.
            let is_sparse = number == 1;
            let slots = KEYS as usize * if is_sparse { 48 } else { SLOT_BYTES };
            let bound = values + slots + values / 32 + (2 << 20);
            assert!(values as isize <= bytes && bytes < bound as isize, "{bytes} bytes for {values}");
            for key in 0..KEYS {
                let entry = store.latch(Key(key));
                let is_own = |(at, x): (usize, &f64)| x.to_bits() == element(key, at).to_bits();
                assert!(
                    entry.value().expect("held").iter().enumerate().all(is_own),
                    "{key} has another value"
                );
            }
        });
        assert_eq!(left, 0, "bytes that were not freed, or were freed with another size");
    }
    let ((), left, _) = taken(|| {
        let init: Initialiser<f64> =
            Arc::new(move |key, row| row.iter_mut().enumerate().for_each(|(at, x)| *x = element(key.0, at)));
        let (flat, bytes, _) = taken(|| Flat::new(Arc::clone(&layout), &init));
        assert!(bytes < (values + (1 << 20)) as isize, "{bytes} bytes for {values}");
        let mut row = [0.0; 7];
        flat.read(Key(KEYS - 1), &mut row);
        assert_eq!(row[6].to_bits(), element(KEYS - 1, 6).to_bits());
    });
    assert_eq!(left, 0);
}
