//! Lists the prepared traces, which become a part of the library.

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=traces");
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("set by Cargo")).join("traces");
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)
        .expect("the folder `traces` is a part of the package")
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "parquet"))
        .collect();
    files.sort();
    let line = |path: &PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        format!("({name:?}, include_bytes!({:?}).as_slice()),", path.display().to_string())
    };
    let list = format!("&[{}]", files.iter().map(line).collect::<String>());
    let to = Path::new(&env::var("OUT_DIR").expect("set by Cargo")).join("prepared.rs");
    fs::write(to, list).expect("the folder of the build can be written");
}
