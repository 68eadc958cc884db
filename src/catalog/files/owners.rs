//! User names of the numeric owners of files, read once from `/etc/passwd`.
//!
//! Directory services (LDAP and the like) are not queried: users known only there are shown as numbers.

use std::collections::HashMap;

/// The user names of this machine by numeric id.
pub(in crate::catalog) struct Owners {
    names: HashMap<u32, String>,
}

impl Owners {
    /// Reads `/etc/passwd`; without this file, every owner is shown as a number.
    pub(in crate::catalog) fn load() -> Owners {
        Owners::parse(&std::fs::read("/etc/passwd").unwrap_or_default())
    }

    fn parse(passwd: &[u8]) -> Owners {
        let text = String::from_utf8_lossy(passwd);
        let mut names = HashMap::new();
        for line in text.lines() {
            let mut fields = line.split(':');
            if let (Some(name), Some(uid)) = (fields.next(), fields.nth(1))
                && let Ok(uid) = uid.parse()
            {
                names.entry(uid).or_insert_with(|| name.to_string());
            }
        }
        Owners { names }
    }

    /// Returns the name of a user, or the id as text if it has no name.
    pub(in crate::catalog) fn name(&self, uid: u32) -> String {
        self.names.get(&uid).cloned().unwrap_or_else(|| uid.to_string())
    }

    /// Returns the user ids of an owner given by name or id; several ids can share a name.
    pub(in crate::catalog) fn numbers(&self, owner: &str) -> Vec<u32> {
        if let Ok(uid) = owner.parse() {
            return vec![uid];
        }
        let mut numbers: Vec<u32> = self.names.iter().filter(|(_, name)| *name == owner).map(|(uid, _)| *uid).collect();
        numbers.sort_unstable();
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_resolves_by_name_and_falls_back_to_number() {
        let owners = Owners::parse(b"root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/home/ann:\n+::::::\nbroken\n");
        assert_eq!((owners.name(1000), owners.name(4711)), ("ann".into(), "4711".into()));
        assert_eq!((owners.numbers("ann"), owners.numbers("4711")), (vec![1000], vec![4711]));
        assert!(owners.numbers("unknown").is_empty());
    }
}
