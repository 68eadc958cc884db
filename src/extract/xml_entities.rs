//! Converts character references (`&#233;`) and named entities (`&eacute;`) of XML and XHTML to characters.
//!
//! Only entities for a single character are known; entities that a document declares itself are not expanded.

/// Entity names of the characters U+00A0 to U+00FF, in order.
const LATIN1: &str = "nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn sup2 \
sup3 acute micro para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest Agrave Aacute Acirc Atilde Auml Aring \
AElig Ccedil Egrave Eacute Ecirc Euml Igrave Iacute Icirc Iuml ETH Ntilde Ograve Oacute Ocirc Otilde Ouml times Oslash \
Ugrave Uacute Ucirc Uuml Yacute THORN szlig agrave aacute acirc atilde auml aring aelig ccedil egrave eacute ecirc euml \
igrave iacute icirc iuml eth ntilde ograve oacute ocirc otilde ouml divide oslash ugrave uacute ucirc uuml yacute thorn \
yuml";

/// Other entity names in common use.
const OTHER_ENTITIES: [(&str, char); 34] = [
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
    ("mdash", '—'),
    ("ndash", '–'),
    ("hellip", '…'),
    ("lsquo", '‘'),
    ("rsquo", '’'),
    ("sbquo", '‚'),
    ("ldquo", '“'),
    ("rdquo", '”'),
    ("bdquo", '„'),
    ("lsaquo", '‹'),
    ("rsaquo", '›'),
    ("bull", '•'),
    ("dagger", '†'),
    ("Dagger", '‡'),
    ("trade", '™'),
    ("euro", '€'),
    ("ensp", '\u{2002}'),
    ("emsp", '\u{2003}'),
    ("thinsp", '\u{2009}'),
    ("zwnj", '\u{200c}'),
    ("zwj", '\u{200d}'),
    ("minus", '−'),
    ("prime", '′'),
    ("Prime", '″'),
    ("larr", '←'),
    ("rarr", '→'),
    ("OElig", 'Œ'),
    ("oelig", 'œ'),
    ("tilde", '˜'),
];

/// Returns the character of an entity, given the text between `&` and `;`; `None` if it is unknown.
pub(crate) fn entity_character(name: &str) -> Option<char> {
    if let Some(number) = name.strip_prefix('#') {
        let hex = number.strip_prefix('x').or_else(|| number.strip_prefix('X'));
        let code = hex.map_or_else(|| number.parse(), |hex| u32::from_str_radix(hex, 16)).ok()?;
        return char::from_u32(code).filter(|it| *it != '\0');
    }
    if let Some((_, character)) = OTHER_ENTITIES.iter().find(|(it, _)| *it == name) {
        return Some(*character);
    }
    let place = LATIN1.split(' ').position(|it| it == name)?;
    char::from_u32(0xA0 + place as u32)
}

/// Replaces the known entities in an attribute value; unknown ones stay unchanged.
pub(crate) fn replace_entities(raw: &str) -> String {
    /// Maximum length of an entity between `&` and `;`; a longer text is not an entity.
    const MAX_NAME_BYTES: usize = 10;
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(start) = rest.find('&') {
        text.push_str(&rest[..start]);
        rest = &rest[start..];
        let end = rest.bytes().take(MAX_NAME_BYTES + 2).position(|it| it == b';');
        match end.and_then(|end| Some((end, entity_character(&rest[1..end])?))) {
            Some((end, character)) => {
                text.push(character);
                rest = &rest[end + 1..];
            }
            None => {
                text.push('&');
                rest = &rest[1..];
            }
        }
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_resolve_to_characters() {
        for (name, character) in [("nbsp", '\u{a0}'), ("yuml", 'ÿ'), ("eacute", 'é'), ("#x20AC", '€'), ("mdash", '—')]
        {
            assert_eq!(entity_character(name), Some(character), "{name}");
        }
        for name in ["#xD800", "#0", "#99999999999", "nosuch", ""] {
            assert_eq!(entity_character(name), None, "{name}");
        }
    }

    #[test]
    fn unescape_keeps_unknown_entities() {
        assert_eq!(replace_entities("a &amp; b & c &é; &nosuch; &lt;&"), "a & b & c &é; &nosuch; <&");
    }
}
