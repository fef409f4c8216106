//! The program under test.

use std::process::Command;

/// `word2vec`, with nothing from the environment that configures it or makes it a node.
pub(crate) fn word2vec() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_word2vec"));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("INTENDANT_")
            || ["RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"].contains(&&*text)
        {
            command.env_remove(&name);
        }
    }
    command
}
