//! Formats that hold matrices one after the other: safetensors, and the text of the original word2vec.

use intendant_core::{Element, ElementType};
use std::io::{self, Write};

/// The beginning of a safetensors file: the length of its header, and the header. The numbers of each tensor
/// follow, little-endian, one tensor after the other. Each of `tensors` is a name and a shape; each of
/// `metadata` is a name and a text.
#[must_use]
pub fn safetensors_header(
    element: ElementType,
    tensors: &[(&str, Vec<u64>)],
    metadata: &[(&str, String)],
) -> Vec<u8> {
    let kind = match element {
        ElementType::F32 => "F32",
        ElementType::F64 => "F64",
    };
    let mut header = serde_json::Map::new();
    if !metadata.is_empty() {
        let texts = metadata.iter().map(|(name, text)| ((*name).to_owned(), text.as_str().into()));
        header.insert("__metadata__".to_owned(), serde_json::Value::Object(texts.collect()));
    }
    let mut start = 0;
    for (name, shape) in tensors {
        let end = start + shape.iter().product::<u64>() * element.bytes() as u64;
        let tensor = serde_json::json!({ "dtype": kind, "shape": shape, "data_offsets": [start, end] });
        header.insert((*name).to_owned(), tensor);
        start = end;
    }
    let mut header = serde_json::Value::Object(header).to_string();
    // Numbers begin at a multiple of eight bytes, as the format requires.
    while !header.len().is_multiple_of(8) {
        header.push(' ');
    }
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes
}

/// Writes a line of word2vec's text format: a word and its vector. The first line of such a file has the
/// number of words and the length of vectors.
///
/// # Errors
/// If the file cannot be written.
pub fn write_vector<E: Element>(file: &mut impl Write, word: &[u8], vector: &[E]) -> io::Result<()> {
    file.write_all(word)?;
    vector.iter().try_for_each(|x| write!(file, " {x}"))?;
    file.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_what_the_safetensors_library_reads() {
        let tensors = [("word", vec![3, 2]), ("constant", vec![1, 1])];
        let metadata = [("program", "kge \"1\"".to_owned())];
        let mut file = safetensors_header(ElementType::F64, &tensors, &metadata);
        assert!(file.len().is_multiple_of(8));
        for number in 0..7 {
            file.extend_from_slice(&f64::from(number).to_le_bytes());
        }
        let read = safetensors::SafeTensors::deserialize(&file).unwrap();
        let constant = read.tensor("constant").unwrap();
        assert_eq!((constant.shape(), constant.data()), (&[1, 1][..], &6f64.to_le_bytes()[..]));
        assert_eq!(read.tensor("word").unwrap().shape(), [3, 2]);
        let (_, header) = safetensors::SafeTensors::read_metadata(&file).unwrap();
        assert_eq!(header.metadata().as_ref().unwrap()["program"], "kge \"1\"");
    }

    #[test]
    fn a_line_has_a_word_and_numbers_that_are_read_again() {
        let mut line = Vec::new();
        write_vector(&mut line, b"king", &[0.1f32, -2.0, 1e-30]).unwrap();
        let text = String::from_utf8(line).unwrap();
        let numbers: Vec<f32> = text.split_whitespace().skip(1).map(|x| x.parse().unwrap()).collect();
        assert!(text.starts_with("king 0.1 -2 ") && text.ends_with('\n'), "{text}");
        assert_eq!(numbers, [0.1, -2.0, 1e-30]);
    }
}
