//! How much memory the system lets the process still have: the limits of its control groups, of both versions that Linux has.

use std::fs;
use std::path::{Path, PathBuf};

/// Bytes that the process and those it shares limits with may take yet; `None` where nothing limits them.
pub(crate) fn memory_left() -> Option<u64> {
    if cfg!(target_os = "linux") { memory_left_in(Path::new("/")) } else { None }
}

/// Like the function above, with another root of the file system, for tests.
fn memory_left_in(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let hierarchies = root.join("sys/fs/cgroup");
    // A line is `ID:CONTROLLERS:PATH`; the second version has ID 0 and no controllers.
    let left = groups.lines().filter_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        if controllers.is_empty() {
            least_left(&hierarchies, path, ["memory.max", "memory.current"])
        } else if controllers.split(',').any(|controller| controller == "memory") {
            least_left(&hierarchies.join("memory"), path, ["memory.limit_in_bytes", "memory.usage_in_bytes"])
        } else {
            None
        }
    });
    left.min()
}

/// The memory that the limits of a group and those around it leave. Inside of a container its path may be one of the world outside, or
/// may not be there: then the hierarchy's own files are the container's.
fn least_left(hierarchy: &Path, path: &str, [limit, usage]: [&str; 2]) -> Option<u64> {
    let path = Path::new(path.trim_start_matches('/'));
    let is_inside = path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
    let groups = path.ancestors().filter(|_| is_inside).map(|group| hierarchy.join(group));
    let left = groups.chain([hierarchy.to_owned()]).filter_map(|group: PathBuf| {
        let limit = number(&group.join(limit))?;
        Some(limit.saturating_sub(number(&group.join(usage))?))
    });
    // The first version writes a limit near 2^63 where there is none.
    left.min().filter(|&left| left < 1 << 62)
}

/// The number in a file; `None` for `max`, and where there is none.
fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The memory that is left according to these files, of which the first is the list of groups.
    fn left(groups: &str, files: &[(&str, &str)]) -> Option<u64> {
        let root = tempfile::tempdir().expect("a temporary folder can be made");
        for (path, text) in [("proc/self/cgroup", groups)].iter().chain(files) {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("it is in a folder")).expect("the folder can be made");
            fs::write(path, text).expect("the file can be written");
        }
        memory_left_in(root.path())
    }

    #[test]
    fn the_tightest_group_of_the_second_version_counts() {
        let files = [
            ("sys/fs/cgroup/a/memory.max", "1000000\n"),
            ("sys/fs/cgroup/a/memory.current", "900000\n"),
            ("sys/fs/cgroup/a/b/memory.max", "500000\n"),
            ("sys/fs/cgroup/a/b/memory.current", "100000\n"),
            ("sys/fs/cgroup/a/b/c/memory.max", "max\n"),
            ("sys/fs/cgroup/a/b/c/memory.current", "100000\n"),
        ];
        assert_eq!(left("0::/a/b/c\n", &files), Some(100_000), "the outermost has least left");
        assert_eq!(left("0::/a/b/c\n", &files[2..]), Some(400_000));
        assert_eq!(left("0::/a/b/c\n", &files[4..]), None, "no limit");
    }

    #[test]
    fn a_container_finds_its_own_files_whatever_its_path() {
        let files = [("sys/fs/cgroup/memory.max", "64000000\n"), ("sys/fs/cgroup/memory.current", "70000000\n")];
        for path in ["/", "/docker/0123", "/../../other"] {
            assert_eq!(left(&format!("0::{path}\n"), &files), Some(0), "{path}: it has more than it may");
        }
    }

    #[test]
    fn the_first_version_has_a_hierarchy_for_memory() {
        let groups = "12:cpu,cpuacct:/a\n7:memory:/docker/1\n0::/\n";
        let files = [
            ("sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "3000\n"),
            ("sys/fs/cgroup/memory/docker/1/memory.usage_in_bytes", "1000\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "1000\n"),
        ];
        assert_eq!(left(groups, &files), Some(2000));
        assert_eq!(left(groups, &files[2..]), None, "no limit");
        assert_eq!(left(groups, &[]), None);
        assert_eq!(left("", &files), None);
    }
}
