//! `number(decimals, grouping, point)`: a number as people write it. The separators are arguments, because they belong
//! to the language of the text around them.

use super::invalid;
use minijinja::Error;
use minijinja::value::{Kwargs, Value};

const DECIMALS_MAX: usize = 10;
const SEPARATOR_BYTES_MAX: usize = 8;

pub fn number(
    value: &Value,
    decimals: Option<usize>,
    grouping: Option<String>,
    point: Option<String>,
    kwargs: Kwargs,
) -> Result<String, Error> {
    let decimals = match decimals {
        Some(decimals) => decimals,
        None => kwargs.get::<Option<usize>>("decimals")?.unwrap_or(0),
    };
    let separator = |given: Option<String>, name: &str, usual: &str| match given {
        Some(text) => Ok(text),
        None => Ok(kwargs.get::<Option<String>>(name)?.unwrap_or_else(|| usual.to_owned())),
    };
    let grouping = separator(grouping, "grouping", "")?;
    let point = separator(point, "point", ".").map_err(|error: Error| error)?;
    kwargs.assert_all_used()?;
    if decimals > DECIMALS_MAX || grouping.len().max(point.len()) > SEPARATOR_BYTES_MAX {
        return Err(invalid(format!("number takes at most {DECIMALS_MAX} decimals and short separators")));
    }
    let digits = if value.is_integer() {
        let fraction = if decimals == 0 { String::new() } else { format!(".{}", "0".repeat(decimals)) };
        format!("{}{fraction}", i128::try_from(value.clone())?)
    } else if value.is_number() {
        let number = f64::try_from(value.clone())?;
        if !number.is_finite() {
            return Err(invalid("number needs a finite number"));
        }
        format!("{number:.decimals$}")
    } else {
        return Err(invalid(format!("number needs a number, not {}", value.kind())));
    };
    Ok(written(&digits, &grouping, &point))
}

fn written(digits: &str, grouping: &str, point: &str) -> String {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |rest| ("-", rest));
    let sign = if digits.bytes().all(|b| matches!(b, b'0' | b'.')) { "" } else { sign };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut out = sign.to_owned();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            out.push_str(grouping);
        }
        out.push(digit);
    }
    if !fraction.is_empty() {
        out.push_str(point);
        out.push_str(fraction);
    }
    out
}

#[cfg(test)]
mod tests {
    use crate::engine::tests::check;

    #[test]
    fn numbers_as_people_write_them() {
        check("{{ 1234567|number }}", "1234567");
        check("{{ 1234567.891|number(2, ',') }}", "1,234,567.89");
        check("{{ 1234567.891|number(2, '.', ',') }}", "1.234.567,89");
        check("{{ 1234|number(decimals=2, grouping=' ', point=',') }}", "1 234,00");
        check("{{ 123|number(0, ',') }} {{ 1000|number(0, ',') }}", "123 1,000");
        check("{{ -1234.5|number(1, ',') }} {{ -0.001|number(2) }}", "-1,234.5 0.00");
        check(
            "{{ 170141183460469231731687303715884105727|number(0, ',') }}",
            "170,141,183,460,469,231,731,687,303,715,884,105,727",
        );
        check("{{ 'x'|number }}", "error: number needs a number");
        check("{{ 1|number(11) }}", "error: number takes");
        check("{{ 1|number(nope=1) }}", "error: ");
    }
}
