//! Rows: values that the store lends.

use crate::latch::LatchGuard;
use intendant_core::Key;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Keeps a copy of a value, and follows its changes.
pub trait Mirror<E>: Sync {
    /// `key` has this value from now on. The caller holds the latch of the key.
    fn mirror(&self, key: Key, value: &[E]);
}

/// A value that its holder reads and changes in place. The row of a shared value holds the latch until it is
/// dropped: all reads and changes meanwhile are one atomic access.
#[must_use = "the value is given back when the row is dropped"]
pub struct Row<'a, E> {
    // A pointer and a length instead of a reference: a reference must be valid until the end of a function
    // that drops the row, but the latch is released before that.
    value: NonNull<E>,
    len: usize,
    /// The mirror that follows the value, and the key.
    mirror: Option<(&'a dyn Mirror<E>, Key)>,
    _value: PhantomData<&'a mut [E]>,
    _guard: Option<LatchGuard<'a>>,
}

impl<'a, E> Row<'a, E> {
    /// A value that no other thread can reach.
    #[inline]
    pub fn unshared(value: &'a mut [E]) -> Self {
        let (len, value) = (value.len(), NonNull::from(value).cast());
        Self { value, len, mirror: None, _value: PhantomData, _guard: None }
    }

    /// A value that is protected by a latch.
    ///
    /// # Safety
    /// `value` points to `len` elements that are valid for `'a`, and every access to them holds the latch of
    /// `guard`.
    #[inline]
    pub(crate) unsafe fn latched(value: *mut E, len: usize, guard: LatchGuard<'a>) -> Self {
        // SAFETY: a valid pointer is not null.
        let value = unsafe { NonNull::new_unchecked(value) };
        Self { value, len, mirror: None, _value: PhantomData, _guard: Some(guard) }
    }

    /// The value of `key`, which `mirror` follows: the mirror gets the value before the row releases the
    /// latch.
    #[inline]
    pub fn mirrored(mut self, mirror: &'a dyn Mirror<E>, key: Key) -> Self {
        self.mirror = Some((mirror, key));
        self
    }
}

impl<E> Drop for Row<'_, E> {
    #[inline]
    fn drop(&mut self) {
        // The latch is a field: it is released after this.
        if let Some((mirror, key)) = self.mirror {
            mirror.mirror(key, self);
        }
    }
}

impl<E> Deref for Row<'_, E> {
    type Target = [E];

    #[inline]
    fn deref(&self) -> &[E] {
        // SAFETY: the constructors got `len` valid elements, to which nothing else has access: either they
        // are borrowed for as long as the row lives, or the row holds their latch.
        unsafe { std::slice::from_raw_parts(self.value.as_ptr(), self.len) }
    }
}

impl<E> DerefMut for Row<'_, E> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [E] {
        // SAFETY: as in `deref`; `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.value.as_ptr(), self.len) }
    }
}

impl<E: fmt::Debug> fmt::Debug for Row<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
