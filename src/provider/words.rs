//! The tables by which errors are told apart: typed codes, and words where servers have none. All lower case, the
//! entries separated by `|`: one string costs no pointers.

use super::Class;

/// Codes, types and reasons. Generic ones (`invalid_request_error`) are not here: the words decide then.
pub const CODES: [(Class, &str); 6] = [
    (
        Class::Context,
        "context_length_exceeded|exceed_context_size_error|tokens_too_long|request_too_large|1261",
    ),
    (
        Class::Billing,
        "insufficient_quota|insufficient_balance|insufficient_user_quota\
         |exceeded_current_quota_error|billing_hard_limit_reached|billing_not_active|billing_error\
         |payment_required|arrearage|creditserror|1113|1308|1309|1310",
    ),
    (
        Class::Auth,
        "invalid_api_key|api_key_invalid|incorrect_api_key|authentication_error\
         |invalid_authentication_error|unauthenticated|permission_error",
    ),
    (
        Class::RateLimit,
        "rate_limit_exceeded|rate_limit_error|rate_limit_reached_error|engine_overloaded_error\
         |resource_exhausted|throttling|throttlingexception|1302|1303|1305",
    ),
    (Class::Transient, "tool_use_failed|overloaded_error"),
    (
        Class::Fatal,
        "content_filter|content_policy_violation|responsibleaipolicyviolation|data_inspection_failed\
         |datainspectionfailed|1301",
    ),
];

/// Words of a throttle; they come before those of the context window, which they quote ("too many tokens").
pub const THROTTLE: &str = "throttl|rate limit|rate_limit|ratelimit|too many requests|please wait|tokens per min\
    |tokens per day|requests per min|(tpm)";

/// Overflow of the context window, by all servers that have no code for it.
pub const CONTEXT: &str = "maximum context length|context length of|context_length|context window|context size\
    |context limit|model's context length|greater than the context length|prompt is too long\
    |prompt too long|input is too long|input length too long|input token count\
    |input token length too long|model token limit|maximum prompt length|too large for model with\
    |reduce the length of|prompt exceeds|exceeds max length|exceed max message tokens\
    |maximum allowed input";

/// Money, or a quota that does not come back by waiting a minute.
pub const BILLING: &str = "insufficient balance|insufficient_balance|insufficient credit|insufficient funds\
    |exceeded your current quota|usage limit for this|billing cycle|requires more credits\
    |out of credits|not enough credits|no credits|credit balance is too low|no resource package\
    |payment required|余额不足|欠费";

/// Refused keys where the status does not say so.
pub const AUTH: &str = "api key not valid|invalid api key|incorrect api key|invalid api-key|invalid token\
    |no auth credentials";

/// Deterministic: the same bytes will fail again, whatever the status says.
pub const TEMPLATE: &str = "jinja|templateerror|template error|raise_exception|roles must alternate\
    |system message must be at the beginning|does not support tools|does not support thinking";

/// A filter of the provider refused the request.
pub const FILTER: &str =
    "content management policy|content_filter|content filter|data_inspection_failed";

/// For errors without any status: what passes by itself.
pub const PASSING: &str = "overloaded|server_error|server error|internal_error|internal error|unavailable|timeout|timed out\
    |try again later|at capacity|no capacity|upstream|disconnected|connection reset\
    |connection refused|connection closed|network";
