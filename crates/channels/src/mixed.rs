//! A channel with two ways out: endpoints of the stub go there, all others to the real provider, or
//! nowhere if there is none. For tests only: a server builds it with `FANTAIL_TESTING=1`.

use crate::part;
use crate::stub::payload::is_of_stub;
use fantail_ports::BoxFuture;
use fantail_ports::channel::{Answer, Channel, Refusal, Report, Shipment};
use fantail_rules::ids::TenantId;
use std::sync::Arc;

/// No provider is configured for such an endpoint.
pub const NO_PROVIDER: &str = "no_provider";

pub struct Mixed {
    pub stub: Arc<dyn Channel>,
    pub provider: Option<Arc<dyn Channel>>,
}

impl Channel for Mixed {
    fn send<'a>(&'a self, shipment: &'a Shipment, report: &'a Report<'a>) -> BoxFuture<'a, ()> {
        let is_stub = |at: &usize| is_of_stub(&shipment.messages[*at].endpoint);
        let (stubs, others): (Vec<usize>, Vec<usize>) = (0..shipment.messages.len()).partition(is_stub);
        if others.is_empty() {
            return self.stub.send(shipment, report);
        }
        if let (Some(provider), true) = (&self.provider, stubs.is_empty()) {
            return provider.send(shipment, report);
        }
        Box::pin(self.split(shipment, stubs, others, report))
    }

    fn paces(&self, endpoint: &[u8]) -> bool {
        match (&self.provider, is_of_stub(endpoint)) {
            (_, true) => self.stub.paces(endpoint),
            (Some(provider), false) => provider.paces(endpoint),
            (None, false) => false,
        }
    }

    fn places(&self, tenant: TenantId) -> u32 {
        self.provider.as_ref().map_or(u32::MAX, |provider| provider.places(tenant))
    }
}

impl Mixed {
    async fn split(&self, shipment: &Shipment, stubs: Vec<usize>, others: Vec<usize>, report: &Report<'_>) {
        for (places, channel) in [(stubs, Some(&*self.stub)), (others, self.provider.as_deref())] {
            let Some(channel) = channel else {
                places.into_iter().for_each(|place| report(place, nowhere()));
                continue;
            };
            part::send(channel, shipment, &places, report).await;
        }
    }
}

fn nowhere() -> Answer {
    Answer::Rejected {
        refusal: Refusal::Message,
        code: NO_PROVIDER.to_owned(),
        message: "no provider is configured for this endpoint".to_owned(),
    }
}
