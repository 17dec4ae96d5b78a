//! The words of the pages, and whose language is spoken.

use fantail_rules::channel_kind::ChannelKind;

pub struct Words {
    /// As `lang` says it.
    pub code: &'static str,
    pub preferences_title: &'static str,
    pub leave_title: &'static str,
    pub gone_title: &'static str,
    pub gone: &'static str,
    pub everything: &'static str,
    pub channels: &'static str,
    pub channel_names: [&'static str; 5],
    pub categories: &'static str,
    pub quiet: &'static str,
    pub quiet_on: &'static str,
    pub start: &'static str,
    pub end: &'static str,
    pub zone: &'static str,
    pub zone_of_profile: &'static str,
    pub days: &'static str,
    pub day_names: [&'static str; 7],
    pub save: &'static str,
    pub saved: &'static str,
    pub changed_meanwhile: &'static str,
    pub not_understood: &'static str,
    pub too_often: &'static str,
    pub leave_everything: &'static str,
    /// Before the name of a category or a channel.
    pub leave_some: &'static str,
    pub leave: &'static str,
    pub left: &'static str,
    pub urgent: &'static str,
}

impl Words {
    pub fn channel(&self, channel: ChannelKind) -> &'static str {
        match channel {
            ChannelKind::InApp => self.channel_names[4],
            ChannelKind::Push => self.channel_names[0],
            ChannelKind::Email => self.channel_names[1],
            ChannelKind::Sms => self.channel_names[2],
            ChannelKind::Webhook => self.channel_names[3],
        }
    }
}

/// The first language of `Accept-Language` that is spoken here, else that of the profile, else English.
pub fn choose(accepted: Option<&str>, locale: &str) -> &'static Words {
    let mut wished: Vec<(u16, &str)> =
        accepted.unwrap_or_default().split(',').take(16).map(weighed).collect();
    // Stable: of equal weights the first counts.
    wished.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
    let wished = wished.into_iter().filter(|(weight, _)| *weight > 0).map(|(_, tag)| tag);
    wished.chain([locale]).find_map(spoken).unwrap_or(&ENGLISH)
}

/// A language and its weight in thousandths.
fn weighed(one: &str) -> (u16, &str) {
    let (tag, parameters) = one.split_once(';').unwrap_or((one, ""));
    let weight = match parameters.trim().strip_prefix("q=") {
        None => 1.0,
        Some(number) => number.trim().parse::<f32>().unwrap_or(0.0).clamp(0.0, 1.0),
    };
    ((weight * 1_000.0) as u16, tag.trim())
}

fn spoken(tag: &str) -> Option<&'static Words> {
    let language = tag.split(['-', '_']).next()?;
    ALL.iter().copied().find(|words| words.code.eq_ignore_ascii_case(language))
}

const ALL: [&Words; 4] = [&ENGLISH, &GERMAN, &FRENCH, &SPANISH];

static ENGLISH: Words = Words {
    code: "en",
    preferences_title: "Notification preferences",
    leave_title: "Unsubscribe",
    gone_title: "This link is no longer valid",
    gone: "It has expired, or what it belonged to is gone. Use the link in a newer message, or the settings of the app.",
    everything: "Send me notifications",
    channels: "How you may be reached",
    channel_names: ["Push notifications", "Email", "Text messages (SMS)", "Webhooks", "Inbox in the app"],
    categories: "What you want to hear about",
    quiet: "Quiet hours",
    quiet_on: "Do not disturb me at these times",
    start: "From",
    end: "Until",
    zone: "Time zone",
    zone_of_profile: "The one of my profile",
    days: "On these days",
    day_names: ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"],
    save: "Save",
    saved: "Your preferences are saved.",
    changed_meanwhile: "Your preferences were changed elsewhere meanwhile. Please check them and save again.",
    not_understood: "Nothing was changed, because the form was not filled in completely. Please check it and try again.",
    too_often: "Nothing was changed, because this link has been used for many changes. Please try again in an hour.",
    leave_everything: "You will get no more notifications.",
    leave_some: "You will get no more:",
    leave: "Unsubscribe",
    left: "You are unsubscribed. You do not need to do anything else.",
    urgent: "Urgent messages, for example about the safety of your account, may still be sent.",
};

static GERMAN: Words = Words {
    code: "de",
    preferences_title: "Benachrichtigungen einstellen",
    leave_title: "Abmelden",
    gone_title: "Dieser Link gilt nicht mehr",
    gone: "Er ist abgelaufen, oder es gibt nicht mehr, wozu er gehörte. Nutzen Sie den Link einer neueren Nachricht oder die Einstellungen der App.",
    everything: "Benachrichtigungen erhalten",
    channels: "Wie Sie erreichbar sind",
    channel_names: ["Push-Nachrichten", "E-Mail", "SMS", "Webhooks", "Posteingang in der App"],
    categories: "Worüber Sie etwas erfahren möchten",
    quiet: "Ruhezeiten",
    quiet_on: "Zu diesen Zeiten nicht stören",
    start: "Von",
    end: "Bis",
    zone: "Zeitzone",
    zone_of_profile: "Die meines Profils",
    days: "An diesen Tagen",
    day_names: ["Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag", "Samstag", "Sonntag"],
    save: "Speichern",
    saved: "Ihre Einstellungen sind gespeichert.",
    changed_meanwhile: "Ihre Einstellungen wurden inzwischen anderswo geändert. Bitte prüfen Sie sie und speichern Sie noch einmal.",
    not_understood: "Es wurde nichts geändert, weil das Formular nicht vollständig ausgefüllt war. Bitte prüfen Sie es und versuchen Sie es noch einmal.",
    too_often: "Es wurde nichts geändert, weil über diesen Link schon vieles geändert wurde. Bitte versuchen Sie es in einer Stunde noch einmal.",
    leave_everything: "Sie erhalten dann keine Benachrichtigungen mehr.",
    leave_some: "Sie erhalten dann nicht mehr:",
    leave: "Abmelden",
    left: "Sie sind abgemeldet. Sie müssen nichts weiter tun.",
    urgent: "Dringende Nachrichten, etwa zur Sicherheit Ihres Kontos, können weiterhin kommen.",
};

static FRENCH: Words = Words {
    code: "fr",
    preferences_title: "Préférences de notification",
    leave_title: "Se désabonner",
    gone_title: "Ce lien n’est plus valable",
    gone: "Il a expiré, ou ce à quoi il appartenait n’existe plus. Utilisez le lien d’un message plus récent ou les réglages de l’application.",
    everything: "Recevoir des notifications",
    channels: "Comment vous joindre",
    channel_names: ["Notifications push", "E-mail", "SMS", "Webhooks", "Boîte de réception de l’application"],
    categories: "Ce dont vous voulez être informé",
    quiet: "Heures calmes",
    quiet_on: "Ne pas me déranger à ces heures",
    start: "De",
    end: "À",
    zone: "Fuseau horaire",
    zone_of_profile: "Celui de mon profil",
    days: "Ces jours-là",
    day_names: ["Lundi", "Mardi", "Mercredi", "Jeudi", "Vendredi", "Samedi", "Dimanche"],
    save: "Enregistrer",
    saved: "Vos préférences sont enregistrées.",
    changed_meanwhile: "Vos préférences ont été modifiées ailleurs entre-temps. Vérifiez-les et enregistrez de nouveau.",
    not_understood: "Rien n’a été modifié, car le formulaire était incomplet. Vérifiez-le et réessayez.",
    too_often: "Rien n’a été modifié, car ce lien a déjà servi à de nombreuses modifications. Réessayez dans une heure.",
    leave_everything: "Vous ne recevrez plus de notifications.",
    leave_some: "Vous ne recevrez plus :",
    leave: "Se désabonner",
    left: "Vous êtes désabonné. Vous n’avez rien d’autre à faire.",
    urgent: "Les messages urgents, par exemple sur la sécurité de votre compte, peuvent encore être envoyés.",
};

static SPANISH: Words = Words {
    code: "es",
    preferences_title: "Preferencias de notificación",
    leave_title: "Darse de baja",
    gone_title: "Este enlace ya no es válido",
    gone: "Ha caducado, o ya no existe aquello a lo que pertenecía. Use el enlace de un mensaje más reciente o los ajustes de la aplicación.",
    everything: "Recibir notificaciones",
    channels: "Cómo podemos avisarle",
    channel_names: [
        "Notificaciones push",
        "Correo electrónico",
        "SMS",
        "Webhooks",
        "Bandeja de la aplicación",
    ],
    categories: "Sobre qué quiere recibir avisos",
    quiet: "Horas de silencio",
    quiet_on: "No molestar a estas horas",
    start: "Desde",
    end: "Hasta",
    zone: "Zona horaria",
    zone_of_profile: "La de mi perfil",
    days: "En estos días",
    day_names: ["Lunes", "Martes", "Miércoles", "Jueves", "Viernes", "Sábado", "Domingo"],
    save: "Guardar",
    saved: "Sus preferencias se han guardado.",
    changed_meanwhile: "Sus preferencias se cambiaron entretanto en otro lugar. Revíselas y guarde de nuevo.",
    not_understood: "No se ha cambiado nada porque el formulario estaba incompleto. Revíselo e inténtelo de nuevo.",
    too_often: "No se ha cambiado nada porque este enlace ya se ha usado para muchos cambios. Inténtelo de nuevo dentro de una hora.",
    leave_everything: "No recibirá más notificaciones.",
    leave_some: "No recibirá más:",
    leave: "Darse de baja",
    left: "Se ha dado de baja. No tiene que hacer nada más.",
    urgent: "Los mensajes urgentes, por ejemplo sobre la seguridad de su cuenta, pueden seguir llegando.",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_browser_is_asked_first_then_the_profile() {
        for (accepted, locale, code) in [
            (None, "", "en"),
            (None, "de-AT", "de"),
            (Some("fr-CH, fr;q=0.9, en;q=0.8"), "de", "fr"),
            (Some("nl, es;q=0.5, en;q=0.7"), "de", "en"),
            (Some("nl"), "es_MX", "es"),
            (Some("de;q=0, *;q=0.1"), "xx", "en"),
            (Some("DE"), "", "de"),
            (Some(";;q=x,,"), "tlh", "en"),
        ] {
            assert_eq!(choose(accepted, locale).code, code, "{accepted:?} {locale}");
        }
    }
}
