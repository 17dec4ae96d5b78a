//! The metrics of accounts with providers: how each is doing, and whose credentials end soon.

use fantail_api::telemetry::Text;
use fantail_channels::accounts::Registry;
use fantail_node::Node;

/// Credentials that end within two weeks are told.
const SOON_MS: u64 = 14 * 86_400_000;

pub fn write(text: &mut Text, node: &Node, accounts: &Registry) {
    let all = accounts.standings();
    let mut family = |name: &str, kind: &str, help: &str, values: &[(&str, u64, usize)]| {
        text.family(name, kind, help);
        for (result, value, at) in values {
            let account = &all[*at];
            let tenant = account.tenant.to_string();
            let mut labels =
                vec![("tenant", &tenant[..]), ("provider", &account.id), ("kind", account.kind.name())];
            if !result.is_empty() {
                labels.push(("result", result));
            }
            text.sample(name, &labels, *value);
        }
    };
    let each = |value: fn(&fantail_channels::accounts::Standing) -> u64| {
        all.iter().enumerate().map(|(at, one)| ("", value(&one.standing), at)).collect::<Vec<_>>()
    };
    let counts = all.iter().enumerate().flat_map(|(at, one)| {
        let counts = &one.standing.counts;
        [("answered", counts.works, at), ("rest", counts.rests, at), ("failed", counts.fails, at)]
    });
    let counts: Vec<_> = counts.collect();
    family(
        "fantail_provider_answers_total",
        "counter",
        "Answers of accounts since they were changed",
        &counts,
    );
    let in_flight = each(|now| now.in_flight.into());
    family("fantail_provider_in_flight", "gauge", "Messages under way with an account", &in_flight);
    let waiting = each(|now| now.waiting as u64);
    family(
        "fantail_provider_waiting",
        "gauge",
        "Messages that wait for room at a limit of an account",
        &waiting,
    );
    let put_off = each(|now| now.counts.put_off);
    family(
        "fantail_provider_put_off_total",
        "counter",
        "Messages that found no room at an account and came back later, since it was changed",
        &put_off,
    );
    let resting = each(|now| now.is_resting.into());
    family("fantail_provider_resting", "gauge", "1 while an account is left alone", &resting);
    let unusable = each(|now| (!now.is_usable).into());
    family("fantail_provider_unusable", "gauge", "1 if settings or credentials cannot be used", &unusable);
    let name = "fantail_provider_credentials_end_seconds";
    text.family(
        name,
        "gauge",
        "Time until credentials end, of those that end within two weeks or have ended",
    );
    let now = node.wall();
    for row in node.providers_ending(now.plus(SOON_MS)) {
        let left = row.put.expires.map_or(0, |ends| ends.since(now) / 1_000);
        let tenant = row.put.tenant.to_string();
        text.sample(name, &[("tenant", &tenant), ("provider", &row.put.id)], left);
    }
}
