//! Locale tags (BCP 47): language, script, region and variants, in their usual spelling. A tag falls back by losing its
//! last part: `zh-Hant-TW` → `zh-Hant` → `zh`.
//!
//! Two-letter languages must exist, so that `ua` for Ukrainian is found before a user gets the wrong language.

/// ISO 639-1.
const LANGUAGES: &str = "aa ab ae af ak am an ar as av ay az ba be bg bi bm bn bo br bs ca ce ch co cr cs cu cv cy da \
de dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is \
it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb \
nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st \
su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu";

/// The tag in its usual spelling, `None` if it is not one. `strict` refuses what profiles may hold and templates should
/// not: `_` for `-`, and extensions such as `-u-nu-latn`, which are dropped.
pub fn canonical(tag: &str, strict: bool) -> Option<String> {
    if tag.len() > 64 || !tag.is_ascii() || (strict && tag.contains('_')) {
        return None;
    }
    let mut out = String::with_capacity(tag.len());
    // How far along the grammar: 1 script may follow, 2 region, 3 variants.
    let mut next = 1;
    for (index, part) in tag.split(['-', '_']).enumerate() {
        let letters = part.bytes().all(|b| b.is_ascii_alphabetic());
        let digits = part.bytes().all(|b| b.is_ascii_digit());
        if !part.bytes().all(|b| b.is_ascii_alphanumeric()) {
            return None;
        }
        if index == 0 {
            is_language(part).then_some(())?;
            out.push_str(&part.to_ascii_lowercase());
            continue;
        }
        match part.len() {
            1 if !strict => return Some(out),
            4 if letters && next <= 1 => {
                next = 2;
                out.push('-');
                out.push_str(&part[..1].to_ascii_uppercase());
                out.push_str(&part[1..].to_ascii_lowercase());
                continue;
            }
            2 if letters && next <= 2 => next = 3,
            3 if digits && next <= 2 => next = 3,
            5..=8 => next = 3,
            4 if part.as_bytes()[0].is_ascii_digit() => next = 3,
            _ => return None,
        }
        out.push('-');
        let region = part.len() <= 3;
        out.push_str(&if region { part.to_ascii_uppercase() } else { part.to_ascii_lowercase() });
    }
    Some(out)
}

fn is_language(part: &str) -> bool {
    let lower = part.to_ascii_lowercase();
    match lower.len() {
        2 => LANGUAGES.split(' ').any(|known| known == lower),
        3 => lower.bytes().all(|b| b.is_ascii_alphabetic()),
        _ => false,
    }
}

/// The tag itself, then each shorter one.
pub fn fallbacks(tag: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(tag), |tag| tag.rfind('-').map(|at| &tag[..at]))
}

/// `de` of `de-AT`.
pub fn language(tag: &str) -> &str {
    tag.split('-').next().unwrap_or(tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: TPL-06
    #[test]
    fn tags_are_spelt_in_one_way() {
        for (tag, expected) in [
            ("de", Some("de")),
            ("DE-at", Some("de-AT")),
            ("zh-hant-tw", Some("zh-Hant-TW")),
            ("es-419", Some("es-419")),
            ("sl-rozaj-biske", Some("sl-rozaj-biske")),
            ("de-1996", Some("de-1996")),
            ("yue", Some("yue")),
            ("", None),
            ("x", None),
            ("ua", None),
            ("english", None),
            ("de_AT", None),
            ("de-", None),
            ("de-AT-Latn", None),
            ("de-u-nu-latn", None),
            ("dé", None),
            ("d e", None),
        ] {
            assert_eq!(canonical(tag, true).as_deref(), expected, "{tag}");
        }
        assert_eq!(canonical("de_AT", false).as_deref(), Some("de-AT"));
        assert_eq!(canonical("ar-EG-u-nu-latn", false).as_deref(), Some("ar-EG"));
        assert_eq!(LANGUAGES.split(' ').count(), 183);
    }

    #[test]
    fn tags_fall_back_part_by_part() {
        let chain: Vec<&str> = fallbacks("zh-Hant-TW").collect();
        assert_eq!(chain, ["zh-Hant-TW", "zh-Hant", "zh"]);
        assert_eq!(language("zh-Hant-TW"), "zh");
    }
}
