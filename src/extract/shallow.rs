//! HTML with its nesting cut off, before a parser sees it: parsers follow the rules of browsers, whose time grows with
//! the square of the depth. Browsers cut it off too, at 512. Text is kept; only tags beyond the depth are dropped.

use std::borrow::Cow;

/// Deeper than any page that was written to be read.
const MOST_DEPTH: usize = 500;

/// Elements without an end, or whose end is usually left out: counting them would find depth where there is none.
const UNCOUNTED: [&str; 32] = [
    "area", "base", "body", "br", "caption", "col", "colgroup", "dd", "dt", "embed", "head", "hr", "html", "img",
    "input", "li", "link", "meta", "optgroup", "option", "p", "param", "rp", "rt", "source", "tbody", "td", "tfoot",
    "th", "thead", "tr", "wbr",
];

/// Elements whose content is not markup.
const RAW: [&str; 4] = ["script", "style", "textarea", "title"];

/// Returns the page without tags that are nested too deep, and whether any was dropped.
pub(crate) fn shallow(html: &str) -> (Cow<'_, str>, bool) {
    let mut scan = Scan { html, kept: String::new(), copied: 0, open: Vec::new(), dropped: 0 };
    let mut at = 0;
    while let Some(open) = memchr::memchr(b'<', &html.as_bytes()[at..]).map(|it| at + it) {
        at = scan.tag(open);
    }
    match scan.copied {
        0 => (Cow::Borrowed(html), false),
        copied => (Cow::Owned(scan.kept + &html[copied..]), true),
    }
}

struct Scan<'t> {
    html: &'t str,
    /// What is left of the page up to `copied`; both are empty while nothing was dropped.
    kept: String,
    copied: usize,
    /// The counted elements that are open, at most [`MOST_DEPTH`].
    open: Vec<String>,
    /// Tags dropped whose ends are still to come.
    dropped: usize,
}

impl Scan<'_> {
    /// Looks at what the `<` at `open` begins, and returns where to go on.
    fn tag(&mut self, open: usize) -> usize {
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
        // Not for every `<`: where no end is left, this is the last that is looked at.
        let close = rest.find('>').map_or(self.html.len(), |it| open + 1 + it + 1);
        match RAW.contains(&name.as_str()) {
            // Neither its begin nor its end counts.
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
                // One that ends nothing, such as what is not markup, takes no level away.
                if let Some(at) = self.open.iter().rposition(|it| *it == name) {
                    self.open.remove(at);
                }
                false
            }
            false if self.open.len() >= MOST_DEPTH => {
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
    fn a_page_as_people_write_them_is_left_alone() {
        let page =
            "<html><body><ul><li>one<li>two</ul><p>a<br>b<p>c<script>if (a<b) '<div>'</script><!-- <div> --></body>";
        let (same, cut) = shallow(page);
        assert!(matches!(same, Cow::Borrowed(it) if it == page) && !cut);
        assert!(!shallow(&"<p>text".repeat(10_000)).1);
        assert!(!shallow(&"<div>text</div>".repeat(10_000)).1);
    }

    #[test]
    fn tags_beyond_the_depth_are_dropped_with_their_ends_and_text_stays() {
        let page = format!("{}deep{}<i>after</i>", "<div>".repeat(600), "</div>".repeat(600));
        let (cut, any) = shallow(&page);
        assert!(any);
        assert_eq!(*cut, format!("{}deep{}<i>after</i>", "<div>".repeat(500), "</div>".repeat(500)));
    }

    #[test]
    fn what_is_no_tag_stays() {
        for page in ["a < b", "<", "<<", "</", "<é>", "<!--", "<script>", "<a", "1<2 and 3>2"] {
            assert_eq!(shallow(page).0, page);
        }
    }

    #[test]
    fn ends_that_end_nothing_hide_no_depth() {
        for level in ["<div><title></title>", "<div></x>", "<div><script>a</b></script></b>"] {
            let page = level.repeat(2 * MOST_DEPTH);
            let (cut, was_cut) = shallow(&page);
            assert!(was_cut && cut.matches("<div>").count() == MOST_DEPTH, "{level}");
            assert_eq!(cut.matches("<title>").count(), cut.matches("</title>").count(), "{level}");
        }
    }

    #[test]
    fn signs_that_begin_no_tag_are_gone_through_once() {
        // Each of these would take minutes if every one were looked for its end.
        for sign in ["<", "<br", "</", "<a", "<!-", "<title"] {
            let page = sign.repeat(1_000_000);
            assert_eq!(shallow(&page).0, page);
        }
    }
}
