//! Slurm's short forms: of lists of machines (`n[1-3,7]`) and of numbers per machine (`2(x3),1`).

/// The first machine of a list such as `n[1-3,7]`, `rack[02-04]n[1-8]` or `login1,n[1-2]`; `None` if the text
/// is no such list.
pub(super) fn first_host(list: &str) -> Option<String> {
    let mut host = String::new();
    let mut rest = list.trim();
    loop {
        // A comma outside of brackets ends the first machine's name.
        let end = rest.find(['[', ']', ',']).unwrap_or(rest.len());
        host.push_str(&rest[..end]);
        rest = &rest[end..];
        if !rest.starts_with('[') {
            break;
        }
        let (ranges, behind) = rest[1..].split_once(']')?;
        host.push_str(first_number(ranges)?);
        rest = behind;
    }
    let plausible = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    (!rest.starts_with(']') && !host.is_empty() && host.chars().all(plausible)).then_some(host)
}

/// The first number of `01-03,7`, with its leading zeros.
pub(super) fn first_number(ranges: &str) -> Option<&str> {
    let first = ranges.split([',', '-']).next()?;
    (!first.is_empty() && first.bytes().all(|b| b.is_ascii_digit())).then_some(first)
}

/// Entry `index` of a list such as `2(x3),1`.
pub(super) fn count_at(list: &str, index: usize) -> Option<usize> {
    let mut left = index;
    for entry in list.split(',') {
        let (count, times) = match entry.split_once("(x") {
            Some((count, times)) => (count, times.strip_suffix(')')?.parse().ok()?),
            None => (entry, 1),
        };
        if left < times {
            return count.trim().parse().ok();
        }
        left -= times;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_host_of_a_list() {
        let cases = [
            ("n1", "n1"),
            ("n[1-3,7]", "n1"),
            ("n[7,1-3]", "n7"),
            ("n[001-128]", "n001"),
            ("login,n[1-3]", "login"),
            ("rack[2-3]n[05-09]-ib,x", "rack2n05-ib"),
            ("[3-4]", "3"),
            (" gpu-a100.cluster.example,b ", "gpu-a100.cluster.example"),
        ];
        for (list, first) in cases {
            assert_eq!(first_host(list).as_deref(), Some(first), "{list}");
        }
        for wrong in ["", ",n1", "n[", "n[1-3", "n1]", "n[]", "n[a-b]", "n[1-3]]", "(null)", "n 1", "-e;x"] {
            let found = first_host(wrong);
            assert!(found.is_none(), "{wrong}: {found:?}");
        }
    }

    #[test]
    fn entries_of_a_list_of_counts() {
        let all = |list: &str, n: usize| (0..n).map(|i| count_at(list, i)).collect::<Vec<_>>();
        assert_eq!(all("2(x2),1", 4), [Some(2), Some(2), Some(1), None]);
        assert_eq!(all("3", 2), [Some(3), None]);
        assert_eq!(all("1,2(x2", 2), [Some(1), None]);
        assert_eq!(all("x", 1), [None]);
    }
}
