//! Results on standard output, and the exit code if it is lost.

use std::io::Write;
use std::process::ExitCode;

/// Prints a result.
pub(crate) fn print(text: &str, code: u8) -> ExitCode {
    let mut stdout = std::io::stdout();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    printed(written, ExitCode::from(code))
}

/// The exit code after writing to standard output: `code`, or that of a failure if the output is lost.
pub(crate) fn printed(written: std::io::Result<()>, code: ExitCode) -> ExitCode {
    match written {
        // If the reader has closed its end of the pipe, it has read what it needed.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            eprintln!("intendant: cannot write to standard output: {error}");
            ExitCode::FAILURE
        }
        Ok(()) | Err(_) => code,
    }
}
