//! Shorter frames for a connection: lists that are progressions, lists that the connection has carried
//! before, compression.
//!
//! [`Packer`] and [`Unpacker`] are the two ends of a connection in one direction. The fourth byte of a
//! frame's header says how the frame is packed:
//!
//! | | after the header |
//! | --- | --- |
//! | 0 | the frame as [`Message::encode`] makes it |
//! | 1 | the lists of keys and numbers, each in a form; then the rest of the frame |
//! | 2 | the number of bytes that follow if they are decompressed (u32); the same as with 1, compressed |
//!
//! A list begins with the number of its form (u8):
//!
//! | | then |
//! | --- | --- |
//! | 0 | the list |
//! | 1 | its first number and the step to the next: the list is a progression |
//! | 2 | the list, which both ends remember |
//! | 3 | how many lists were remembered since this list was (u32) |
//!
//! Both ends remember the same lists, because frames of a connection arrive complete and in order
//! ([`Dictionary`]). This is the key caching of [OSDI'14 §4.2], where a list of keys that was sent before is
//! replaced by its hash. There, a receiver may lack a list, and then asks for it. Here it never lacks one.
//!
//! The sender compresses the lists, followed by the rest of the frame in planes ([`compression`]): first the
//! first byte of each element, then the second, and so on. The bytes of a plane are alike, because elements
//! have similar exponents, and small integers have zeros at the end.

mod compression;
mod dictionary;
mod forms;

use crate::{HEADER_BYTES, Message, WireError};
use bytes::Bytes;
use dictionary::{Dictionary, Remembered};
use forms::{Form, List};
use intendant_core::limits;

/// The byte of the header that says how a frame is packed.
const AT: usize = 3;
const PLAIN: u8 = 0;
const FORMS: u8 = 1;
const COMPRESSED: u8 = 2;

/// Shorter frames are not compressed.
const COMPRESSED_BYTES_MIN: usize = 4 << 10;

/// Frames whose lists have fewer bytes in total are not packed, unless they are long enough to be compressed.
const LISTED_BYTES_MIN: usize = 32;

/// A progression, and likewise compression, must save one in this many bytes of a frame.
const WORTH: usize = 32;

/// How a node shortens the frames that it sends, in addition to progressions. Nodes may differ in their
/// packing: receivers read all frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packing {
    /// Lists of keys and numbers that a connection carries again are replaced by a reference [OSDI'14 §4.2,
    /// key caching]. Both ends of a connection remember up to 8 MiB of lists per direction.
    pub key_lists: bool,
    /// Frames of 4 KiB or more are compressed [OSDI'14 §4.2, value compression].
    pub compress: bool,
}

/// The bytes that the frames of a connection would have without packing, and those that packing has saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// All frames as [`Message::encode`] makes them.
    pub unpacked: u64,
    /// The bytes of lists, minus those of the progressions in their places.
    pub runs: u64,
    /// The bytes of lists, minus those of the references in their places.
    pub key_lists: u64,
    /// The bytes before compression, minus those after it.
    pub compression: u64,
}

/// The sending end of a connection.
#[derive(Debug)]
pub struct Packer {
    packing: Packing,
    element_bytes: usize,
    remembered: Remembered,
}

impl Packer {
    /// The sending end of a new connection, for values whose elements have `element_bytes` bytes.
    #[must_use]
    pub fn new(packing: Packing, element_bytes: usize) -> Self {
        Self { packing, element_bytes, remembered: Remembered::default() }
    }

    /// The frame of a message, in two parts. Adds its bytes to `saved`. The connection must carry every
    /// frame, in the order of the calls.
    ///
    /// # Panics
    /// As [`Message::encode`].
    #[must_use]
    pub fn pack(&mut self, message: &Message, saved: &mut Saved) -> (Bytes, Bytes) {
        let (head, values) = message.encode_parts();
        let bytes = head.len() + values.len();
        saved.unpacked += bytes as u64;
        let compress = self.packing.compress && bytes >= COMPRESSED_BYTES_MIN;
        let lists = forms::lists(&head);
        if !compress && lists.iter().map(List::bytes).sum::<usize>() < LISTED_BYTES_MIN {
            return (head, values);
        }
        let forms = self.choose(&head, lists, bytes, saved);
        let is_plain = forms.iter().all(|form| *form == Form::AsIs);
        if is_plain && !compress {
            return (head, values);
        }
        let mut packed = Vec::with_capacity(head.len() + forms::MARKS);
        packed.extend_from_slice(&head[..HEADER_BYTES]);
        packed[AT] = FORMS;
        let mut at = HEADER_BYTES;
        for (list, form) in lists.into_iter().zip(forms) {
            if list.bytes() > 0 {
                form.put(&mut packed, list, &head[at..at + list.bytes()]);
                at += list.bytes();
            }
        }
        if compress && let Some(compressed) = self.compress(&packed, &head[at..], &values, saved) {
            return (Bytes::from(compressed), Bytes::new());
        }
        if is_plain {
            return (head, values);
        }
        packed.extend_from_slice(&head[at..]);
        (Bytes::from(packed), values)
    }

    /// The forms of the lists of a frame of `bytes` bytes that begins with `head`.
    fn choose(
        &mut self,
        head: &[u8],
        lists: forms::Lists,
        bytes: usize,
        saved: &mut Saved,
    ) -> [Form; forms::LISTS_MAX] {
        let mut at = HEADER_BYTES;
        lists.map(|list| {
            let raw = &head[at..at + list.bytes()];
            at += raw.len();
            if let Some(form) = forms::progression(list, raw)
                && form.saves(list) * WORTH >= bytes
            {
                saved.runs += form.saves(list) as u64;
                return form;
            }
            if !self.packing.key_lists || !Remembered::takes(raw) {
                return Form::AsIs;
            }
            match self.remembered.find(raw) {
                Some(age) => {
                    let form = Form::Remembered(age);
                    saved.key_lists += form.saves(list) as u64;
                    form
                }
                None => {
                    self.remembered.insert(raw);
                    Form::Remember
                }
            }
        })
    }

    /// The compressed frame of a header with lists, and of what follows them; `None` if it would hardly be
    /// shorter.
    fn compress(&self, packed: &[u8], tail: &[u8], values: &[u8], saved: &mut Saved) -> Option<Vec<u8>> {
        let (header, lists) = packed.split_at(HEADER_BYTES);
        let bytes = lists.len() + tail.len() + values.len();
        let mut plain = Vec::with_capacity(bytes);
        plain.extend_from_slice(lists);
        compression::put_planes(&mut plain, self.element_bytes, tail, values);
        let mut frame = Vec::with_capacity(HEADER_BYTES + 4 + bytes);
        frame.extend_from_slice(header);
        frame[AT] = COMPRESSED;
        frame.extend_from_slice(&(bytes as u32).to_le_bytes());
        let whole = bytes + HEADER_BYTES;
        if !compression::put_compressed(&mut frame, &plain, whole - whole / WORTH) {
            return None;
        }
        saved.compression += (whole - frame.len()) as u64;
        Some(frame)
    }
}

/// The receiving end of a connection.
#[derive(Debug)]
pub struct Unpacker {
    element_bytes: usize,
    dictionary: Dictionary,
}

impl Unpacker {
    /// The receiving end of a new connection, for values whose elements have `element_bytes` bytes.
    #[must_use]
    pub fn new(element_bytes: usize) -> Self {
        Self { element_bytes, dictionary: Dictionary::default() }
    }

    /// Reads a frame. It must be the frame that the sender's [`Packer`] made next after the frame of the
    /// previous call.
    ///
    /// # Errors
    /// If the frame is not exactly one message. The two ends may remember different lists from then on.
    pub fn unpack(&mut self, mut frame: Bytes) -> Result<Message, WireError> {
        match frame.get(AT) {
            None | Some(&PLAIN) => Message::decode(frame),
            Some(&FORMS) => {
                let (head, lists) = Self::split(&mut frame)?;
                self.restore(head, lists, frame, |rest| rest)
            }
            Some(&COMPRESSED) => {
                let (head, lists) = Self::split(&mut frame)?;
                let plain = Bytes::from(compression::decompress(frame)?);
                let width = self.element_bytes;
                self.restore(head, lists, plain, |rest| compression::from_planes(&rest, width).into())
            }
            Some(&value) => Err(WireError::UnknownTag { field: "packing", value }),
        }
    }

    /// Takes the header off a packed frame. Returns the start of the plain frame, and its lists.
    fn split(frame: &mut Bytes) -> Result<(Vec<u8>, forms::Lists), WireError> {
        let bytes = frame.len();
        if bytes > limits::FRAME_BYTES_MAX {
            return Err(WireError::TooLong { bytes });
        }
        if bytes < HEADER_BYTES {
            return Err(WireError::Truncated { bytes, needed: HEADER_BYTES });
        }
        let mut head = frame.split_to(HEADER_BYTES).to_vec();
        head[AT] = PLAIN;
        let keys = forms::count(&head);
        if keys > limits::FRAME_KEYS_MAX {
            return Err(WireError::TooManyKeys { keys });
        }
        let lists = forms::lists(&head);
        let bytes = HEADER_BYTES + lists.iter().map(List::bytes).sum::<usize>();
        if bytes > limits::FRAME_BYTES_MAX {
            return Err(WireError::TooLong { bytes });
        }
        Ok((head, lists))
    }

    /// Reads the message that starts with `head`. `body` contains its lists in their forms, followed by the
    /// rest of the frame.
    fn restore(
        &mut self,
        mut head: Vec<u8>,
        lists: forms::Lists,
        mut body: Bytes,
        rest: impl FnOnce(Bytes) -> Bytes,
    ) -> Result<Message, WireError> {
        for list in lists.iter().filter(|list| list.bytes() > 0) {
            forms::restore(&mut head, *list, &mut body, &mut self.dictionary)?;
        }
        let rest = rest(body);
        let bytes = head.len() + rest.len();
        if bytes > limits::FRAME_BYTES_MAX {
            return Err(WireError::TooLong { bytes });
        }
        Message::decode_parts(head.into(), rest)
    }
}
