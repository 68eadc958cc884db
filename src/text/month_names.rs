//! Names of the months in the languages of Western Europe, for dates in questions and in files. Pure functions.

/// The names of each month in lower case, full names first: English, German, French, Spanish, Italian, Portuguese, Dutch.
/// Without `mar`, which is also an English and a Spanish word.
pub(crate) const MONTHS: [&str; 12] = [
    "january jan januar jänner janvier enero gennaio janeiro januari janv ene",
    "february feb februar feber février febrero febbraio fevereiro februari févr",
    "march märz mars marzo março maart mrz",
    "april apr avril abril aprile avr abr",
    "may mai mayo maggio maio mei",
    "june jun juni juin junio giugno junho",
    "july jul juli juillet julio luglio julho juil",
    "august aug août agosto augustus ago",
    "september sep sept septembre septiembre setiembre settembre setembro",
    "october oct oktober okt octobre octubre ottobre outubro",
    "november nov novembre noviembre novembro",
    "december dec dezember dez décembre diciembre dicembre dezembro dic déc",
];

/// Returns the number of the month, 1 to 12, with this name in lower case.
pub(crate) fn month_number(name: &str) -> Option<u32> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let index = MONTHS.iter().position(|names| names.split(' ').any(|it| it == name))?;
    u32::try_from(index + 1).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_of_several_languages_have_numbers() {
        for (name, number) in
            [("march", 3), ("märz", 3), ("août", 8), ("diciembre", 12), ("sept.", 9), ("maart", 3), ("ottobre", 10)]
        {
            assert_eq!(month_number(name), Some(number), "{name}");
        }
        for name in ["mar", "mars bar", "", "montag"] {
            assert_eq!(month_number(name), None, "{name}");
        }
    }
}
