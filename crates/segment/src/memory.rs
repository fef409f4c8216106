//! How much memory this process can still get: in the machine, and in every control group around it.

use crate::SegmentError;
use std::path::Path;

/// Checks that `bytes` more of memory are free: in the machine, and in every control group around this
/// process. A limit that the system does not report does not count.
pub(crate) fn check(bytes: u64) -> Result<(), SegmentError> {
    let Some((available, limit)) = free(Path::new("/")) else { return Ok(()) };
    if bytes > available { Err(SegmentError::Memory { bytes, available, limit }) } else { Ok(()) }
}

/// Checks that memory that another process already has does not exceed the memory of the machine.
pub(crate) fn check_total(bytes: u64) -> Result<(), SegmentError> {
    let Some(available) = meminfo(Path::new("/"), "MemTotal") else { return Ok(()) };
    let limit = "the memory of this machine".to_owned();
    if bytes > available { Err(SegmentError::Memory { bytes, available, limit }) } else { Ok(()) }
}

/// Bytes that the tightest limit leaves, and its name, according to the files below `root`, which is `/`
/// outside of tests; `None` if nothing is known. Swap space counts, because all memory that this crate asks
/// for can be swapped out.
#[must_use]
pub fn free(root: &Path) -> Option<(u64, String)> {
    let swap = meminfo(root, "SwapFree").unwrap_or(0);
    let mut least = meminfo(root, "MemAvailable")
        .map(|bytes| (bytes.saturating_add(swap), "the free memory of this machine".into()));
    for line in read(&root.join("proc/self/cgroup")).lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let unified = controllers.is_empty();
        if !unified && !controllers.split(',').any(|controller| controller == "memory") {
            continue;
        }
        let mount = root.join("sys/fs/cgroup").join(if unified { "" } else { "memory" });
        // The limits of all groups around this one apply. In a container, inner parts of the path may not be
        // visible.
        for group in Path::new(path.trim_start_matches('/')).ancestors() {
            let folder = mount.join(group);
            if let Some(left) = group_free(&folder, unified)
                && least.as_ref().is_none_or(|(bytes, _)| left < *bytes)
            {
                least = Some((left, format!("the memory limit of control group {}", folder.display())));
            }
        }
    }
    least
}

/// Bytes that a control group may still use. Files that it has cached do not count, because the system can
/// evict them.
fn group_free(folder: &Path, unified: bool) -> Option<u64> {
    let (most, used, cached) = if unified {
        ("memory.max", "memory.current", "inactive_file")
    } else {
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    };
    let number = |name: &str| read(&folder.join(name)).trim().parse::<u64>().ok();
    let (most, used) = (number(most)?, number(used)?);
    let cached = read(&folder.join("memory.stat"))
        .lines()
        .find_map(|line| line.strip_prefix(cached)?.trim().parse::<u64>().ok())
        .unwrap_or(0);
    Some(most.saturating_sub(used.saturating_sub(cached)))
}

/// A field of `/proc/meminfo`, in bytes.
fn meminfo(root: &Path, field: &str) -> Option<u64> {
    let text = read(&root.join("proc/meminfo"));
    let rest = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    let kibibytes: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes.saturating_mul(1024))
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A folder with these files of `/proc` and `/sys`.
    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("in a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
        root
    }

    fn free_of(files: &[(&str, &str)]) -> Option<(u64, String)> {
        free(machine(files).path())
    }

    const MEMINFO: (&str, &str) =
        ("proc/meminfo", "MemTotal:  200 kB\nMemAvailable:     100 kB\nSwapFree: 7 kB\n");

    #[test]
    fn the_free_memory_of_the_machine_limits() {
        assert_eq!(free_of(&[MEMINFO]), Some((109_568, "the free memory of this machine".to_owned())));
        assert_eq!(meminfo(machine(&[MEMINFO]).path(), "MemTotal"), Some(204_800));
        for text in ["", "MemAvailable: kB", "MemAvailable: 100", "MemAvailable: x kB", "Available: 1 kB"] {
            assert_eq!(free_of(&[("proc/meminfo", text)]), None, "{text}");
        }
    }

    #[test]
    fn the_tightest_control_group_limits_and_cached_files_give_way() {
        let groups = [
            MEMINFO,
            ("proc/self/cgroup", "0::/outer/inner\n"),
            ("sys/fs/cgroup/outer/memory.max", "10000\n"),
            ("sys/fs/cgroup/outer/memory.current", "9000\n"),
            ("sys/fs/cgroup/outer/memory.stat", "anon 5\ninactive_file 3000\n"),
            ("sys/fs/cgroup/outer/inner/memory.max", "max\n"),
            ("sys/fs/cgroup/outer/inner/memory.current", "9000\n"),
        ];
        let (bytes, limit) = free_of(&groups).expect("a limit");
        assert_eq!(bytes, 4000);
        assert!(limit.ends_with("sys/fs/cgroup/outer"), "{limit}");
    }

    #[test]
    fn control_groups_of_the_first_version_limit_as_well() {
        let groups = [
            ("proc/self/cgroup", "5:cpu,memory:/job\n4:pids:/other\n"),
            ("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "500\n"),
            ("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "600\n"),
        ];
        let (bytes, limit) = free_of(&groups).expect("a limit");
        assert_eq!(bytes, 0);
        assert!(limit.contains("memory/job"), "{limit}");
    }
}
