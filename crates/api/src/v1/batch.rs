//! Batches whose items succeed or fail one by one.

use crate::problem::Problem;
use fantail_node::ask::Refusal;
use fantail_wire::code::Code;
use fantail_wire::list::ItemError;

/// The problem to answer instead of results, if nothing was done because the server cannot take anything now, or the tenant
/// has as much as it may.
pub fn refused_as_one<T>(results: &[Result<T, Refusal>]) -> Option<Problem> {
    let mut shared: Option<Problem> = None;
    for result in results {
        let Err(refusal) = result else { return None };
        let problem = Problem::from(refusal.clone());
        let first = shared.get_or_insert_with(|| problem.clone());
        let is_common = problem.code.status() == 503 || problem.code == Code::QuotaExceeded;
        if problem.code != first.code || !is_common {
            return None;
        }
    }
    shared
}

pub fn item_error(index: usize, refusal: Refusal) -> ItemError {
    let problem = Problem::from(refusal);
    ItemError {
        index: u64::try_from(index).unwrap_or(u64::MAX),
        code: problem.code,
        detail: problem.detail.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fantail_node::ask::Resource;

    #[test]
    fn only_a_common_inability_is_answered_as_one() {
        let busy = || Err::<(), _>(Refusal::Busy { retry_after_ms: 5 });
        let cases = [
            (vec![busy(), Err(Refusal::Busy { retry_after_ms: 9 })], Some(Code::QueueFull)),
            (vec![Err(Refusal::NoRoom)], Some(Code::StorageFull)),
            (
                vec![Err(Refusal::OverQuota { resource: Resource::Users, limit: 1 })],
                Some(Code::QuotaExceeded),
            ),
            (vec![busy(), Ok(())], None),
            (vec![busy(), Err(Refusal::NoRoom)], None),
            (vec![Err(Refusal::OtherBody)], None),
            (vec![Ok(())], None),
            (vec![], None),
        ];
        for (results, expected) in cases {
            assert_eq!(refused_as_one(&results).map(|problem| problem.code), expected, "{results:?}");
        }
    }
}
