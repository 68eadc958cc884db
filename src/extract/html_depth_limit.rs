//! Limits the nesting depth of HTML before it is parsed, because parsers that follow the browsers' rules take time
//! quadratic in the depth. Tags beyond the limit are dropped, all text is kept. Browsers limit the depth too, to 512.

use std::borrow::Cow;

/// Maximum depth of nested elements, more than any real page has; deeper tags are dropped.
const MAX_DEPTH: usize = 500;

/// Elements that do not count as depth: their end tag may be missing, and then elements that are siblings would seem
/// nested.
const UNCOUNTED: [&str; 32] = [
    "area", "base", "body", "br", "caption", "col", "colgroup", "dd", "dt", "embed", "head", "hr", "html", "img",
    "input", "li", "link", "meta", "optgroup", "option", "p", "param", "rp", "rt", "source", "tbody", "td", "tfoot",
    "th", "thead", "tr", "wbr",
];

/// Elements whose content is raw text, in which `<` does not begin a tag.
const RAW_TEXT: [&str; 4] = ["script", "style", "textarea", "title"];

/// Returns the page without the tags beyond the depth limit, and whether any tags were dropped.
pub(crate) fn limit_depth(html: &str) -> (Cow<'_, str>, bool) {
    let mut scan = TagScanner { html, kept: String::new(), copied: 0, open: Vec::new(), dropped: 0 };
    let mut at = 0;
    while let Some(open) = memchr::memchr(b'<', &html.as_bytes()[at..]).map(|it| at + it) {
        at = scan.scan_tag(open);
    }
    match scan.copied {
        0 => (Cow::Borrowed(html), false),
        copied => (Cow::Owned(scan.kept + &html[copied..]), true),
    }
}

struct TagScanner<'t> {
    html: &'t str,
    /// Output for the input before the offset `copied`; empty until the first tag is dropped.
    kept: String,
    copied: usize,
    /// Names of the open elements that count as depth, at most [`MAX_DEPTH`].
    open: Vec<String>,
    /// Number of dropped start tags that are still open. Their end tags must be dropped too.
    dropped: usize,
}

impl TagScanner<'_> {
    /// Handles the markup that begins with `<` at offset `open`, and returns the offset from which to continue.
    fn scan_tag(&mut self, open: usize) -> usize {
        let rest = &self.html[open + 1..];
        if rest.starts_with("!--") {
            return rest.find("-->").map_or(self.html.len(), |it| open + 1 + it + 3);
        }
        let is_end = rest.starts_with('/');
        let name = rest.trim_start_matches('/');
        let length = name.find(|it: char| !it.is_ascii_alphanumeric()).unwrap_or(name.len());
        let name = name[..length].to_ascii_lowercase();
        if !name.starts_with(|it: char| it.is_ascii_alphabetic()) || UNCOUNTED.contains(&name.as_str()) {
            return open + 1;
        }
        // If no `>` is left, continues at the end of the page, so that the page is not searched again for each later `<`,
        // which would take quadratic time.
        let close = rest.find('>').map_or(self.html.len(), |it| open + 1 + it + 1);
        match RAW_TEXT.contains(&name.as_str()) {
            // Elements with raw text do not count as depth. Skips only the tag if it is an end tag; skips a start tag
            // together with the raw text after it.
            true if is_end => return close,
            true => return self.html[close..].find("</").map_or(self.html.len(), |it| close + it).max(open + 1),
            false => (),
        }
        let drop = match is_end {
            true if self.dropped > 0 => {
                self.dropped -= 1;
                true
            }
            true => {
                // Reduces the depth only if the element is open.
                if let Some(at) = self.open.iter().rposition(|it| *it == name) {
                    self.open.remove(at);
                }
                false
            }
            false if self.open.len() >= MAX_DEPTH => {
                self.dropped += 1;
                true
            }
            false => {
                self.open.push(name);
                false
            }
        };
        if drop {
            self.kept.push_str(&self.html[self.copied..open]);
            self.copied = close;
        }
        close
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_page_is_unchanged() {
        let page =
            "<html><body><ul><li>one<li>two</ul><p>a<br>b<p>c<script>if (a<b) '<div>'</script><!-- <div> --></body>";
        let (same, cut) = limit_depth(page);
        assert!(matches!(same, Cow::Borrowed(it) if it == page) && !cut);
        assert!(!limit_depth(&"<p>text".repeat(10_000)).1);
        assert!(!limit_depth(&"<div>text</div>".repeat(10_000)).1);
    }

    #[test]
    fn tags_beyond_depth_limit_are_dropped() {
        let page = format!("{}deep{}<i>after</i>", "<div>".repeat(600), "</div>".repeat(600));
        let (cut, any) = limit_depth(&page);
        assert!(any);
        assert_eq!(*cut, format!("{}deep{}<i>after</i>", "<div>".repeat(500), "</div>".repeat(500)));
    }

    #[test]
    fn text_that_is_not_a_tag_is_kept() {
        for page in ["a < b", "<", "<<", "</", "<é>", "<!--", "<script>", "<a", "1<2 and 3>2"] {
            assert_eq!(limit_depth(page).0, page);
        }
    }

    // Case C3
    #[test]
    fn stray_end_tags_do_not_hide_depth() {
        for level in ["<div><title></title>", "<div></x>", "<div><script>a</b></script></b>"] {
            let page = level.repeat(2 * MAX_DEPTH);
            let (cut, was_cut) = limit_depth(&page);
            assert!(was_cut && cut.matches("<div>").count() == MAX_DEPTH, "{level}");
            assert_eq!(cut.matches("<title>").count(), cut.matches("</title>").count(), "{level}");
        }
    }

    // Case C3
    #[test]
    fn unclosed_tag_starts_are_scanned_in_linear_time() {
        // A search of the rest of the page for the end of each tag or comment would take minutes.
        for sign in ["<", "<br", "</", "<a", "<!-", "<title"] {
            let page = sign.repeat(1_000_000);
            assert_eq!(limit_depth(&page).0, page);
        }
    }
}
