//! Policies against what they say.

use super::*;
use crate::channel_kind::ChannelKind;
use crate::preference::{Quiet, Switches};
use crate::quiet::{Times, Window};

const TENANT: TenantId = TenantId(7);

fn set(kinds: &[ChannelKind]) -> ChannelSet {
    kinds.iter().copied().collect()
}

fn defaults(zone: &str) -> Defaults {
    let times = Times { start_minute: 1_320, end_minute: 420 };
    let window = Window::new(times, Days::ALL).expect("a window");
    let zone = ZoneNo::find(zone).unwrap_or(ZoneNo::NONE);
    let channels =
        Switches::default().with(ChannelKind::Email, Switch::Off).with(ChannelKind::Sms, Switch::Off);
    let choice = CategoryChoice { switch: Switch::Off, channels: Some(set(&[ChannelKind::Push])) };
    Defaults {
        preferences: Preferences {
            everything: Switch::Off,
            quiet: Some(Quiet { is_enabled: true, window, zone }),
            channels,
            categories: [("news".to_owned(), choice)].into_iter().collect(),
        },
    }
}

// proves: PRF-01, PRF-07
#[test]
fn defaults_are_for_what_was_left_open() {
    let vienna = ZoneNo::find("Europe/Vienna").expect("listed");
    let tokyo = ZoneNo::find("Asia/Tokyo").expect("listed");
    let silent = Profile { zone: vienna, ..Profile::default() };
    let all = Said { everything: true, quiet: true, channels: ChannelSet::ALL };

    let of_silent = defaults("nowhere").under(silent, Said::default());
    assert!(of_silent.global_off && of_silent.quiet.is_some());
    assert_eq!(of_silent.channels_off, set(&[ChannelKind::Email, ChannelKind::Sms]));
    assert_eq!((of_silent.zone, of_silent.consents), (vienna, silent.consents));
    assert_eq!(defaults("Asia/Tokyo").under(silent, Said::default()).zone, tokyo);

    assert_eq!(defaults("Asia/Tokyo").under(silent, all), silent, "the user's word stands");
    let said = Said { channels: set(&[ChannelKind::Email]), ..Said::default() };
    let no_push = Profile { channels_off: set(&[ChannelKind::Push]), ..silent };
    let merged = defaults("nowhere").under(no_push, said);
    assert_eq!(merged.channels_off, set(&[ChannelKind::Push, ChannelKind::Sms]));
    assert_eq!(Defaults::default().under(no_push, Said::default()), no_push);
}

// proves: PRF-01
#[test]
fn choices_are_filled_up_field_by_field() {
    let (news, other) = (CategoryId::of("news"), CategoryId::of("other"));
    let push = Some(set(&[ChannelKind::Push]));
    let mail = Some(set(&[ChannelKind::Email]));
    let chosen = |switch, channels| CategoryChoice { switch, channels };
    for (category, choice, merged) in [
        (news, chosen(Switch::NotSaid, None), chosen(Switch::Off, push)),
        (news, chosen(Switch::On, None), chosen(Switch::On, push)),
        (news, chosen(Switch::NotSaid, mail), chosen(Switch::Off, mail)),
        (other, chosen(Switch::NotSaid, None), CategoryChoice::default()),
        (other, chosen(Switch::Off, mail), chosen(Switch::Off, mail)),
    ] {
        assert_eq!(defaults("nowhere").choice(category, choice), merged, "{choice:?}");
    }
}

// proves: AGG-03, PRI-03
#[test]
fn what_a_tenant_says_stands_above_what_is_usual() {
    let mine = CategoryPolicy { priority: Some(Priority::Low), digest: None, ..CategoryPolicy::default() };
    let categories = [(CategoryId::of("like"), mine.clone())].into_iter().collect();
    let tenants = TenantPolicies { defaults: defaults("nowhere"), categories };
    let policies = Policies::new([(TENANT, tenants)].into_iter().collect());
    let of = |tenant, name: &str| policies.of(tenant, CategoryId::of(name));
    let window = |policy: &CategoryPolicy| policy.digest.as_ref().map(|digest| digest.terms.window_seconds);
    assert_eq!(of(TENANT, "like"), &mine);
    assert_eq!(window(of(TENANT, "reply")), Some(600));
    assert_eq!(window(of(TenantId(8), "like")), Some(300));
    assert_eq!(of(TENANT, "anything"), &CategoryPolicy::default());
    assert_eq!(policies.priority(TENANT, "like"), Priority::Low);
    assert_eq!(policies.priority(TENANT, "security"), Priority::Critical);
    assert_eq!(policies.defaults(TENANT), &defaults("nowhere"));
    assert_eq!(policies.defaults(TenantId(8)), &Defaults::default());
}
