//! The tables by which errors are told apart: typed codes, and words where servers have none. All lower case, the
//! entries separated by `|`, the lists by line ends: one string costs no pointers. A list's place is its bit.

/// The lists of [`WORDS`] in order.
pub const THROTTLE: u32 = 1;
pub const CONTEXT: u32 = 1 << 1;
pub const BILLING: u32 = 1 << 2;
pub const AUTH: u32 = 1 << 3;
pub const TEMPLATE: u32 = 1 << 4;
pub const FILTER: u32 = 1 << 5;
pub const PASSING: u32 = 1 << 6;
pub const NAMES_CONTEXT: u32 = 1 << 7;
pub const UNKNOWN: u32 = 1 << 8;
pub const MISSING: u32 = 1 << 9;
pub const MAX_COMPLETION: u32 = 1 << 10;
pub const MAX_TOKENS: u32 = 1 << 11;
pub const MAX_NEW: u32 = 1 << 12;
pub const NO_SUPPORT: u32 = 1 << 13;
pub const TOOL_CHOICE: u32 = 1 << 14;
pub const IN_MESSAGES: u32 = 1 << 15;
pub const TEMPERATURE: u32 = 1 << 16;
pub const ONLY_ONE: u32 = 1 << 17;
pub const EMPTY: u32 = 1 << 18;
pub const NAMES_CONTENT: u32 = 1 << 19;

/// Words: of a throttle (they come before those of the context window, which they quote: "too many tokens"); of an
/// overflow of the context window, by all servers that have no code for it; of money, or a quota that does not come
/// back by waiting a minute; of refused keys where the status does not say so; of what is deterministic, since the same
/// bytes will fail again, whatever the status says; of a provider's filter; of what passes by itself, for errors without
/// any status. Behind them those that name what to change in a request.
pub const WORDS: &str = "throttl|rate limit|rate_limit|ratelimit|too many requests|please wait|tokens per min\
    |tokens per day|requests per min|(tpm)\n\
    maximum context length|context length of|context_length|context window|context size\
    |context limit|model's context length|greater than the context length|prompt is too long\
    |prompt too long|input is too long|input length too long|input token count\
    |input token length too long|model token limit|maximum prompt length|too large for model with\
    |reduce the length of|prompt exceeds|exceeds max length|exceed max message tokens\
    |maximum allowed input\n\
    insufficient balance|insufficient_balance|insufficient credit|insufficient funds\
    |exceeded your current quota|usage limit for this|billing cycle|requires more credits\
    |out of credits|not enough credits|no credits|credit balance is too low|no resource package\
    |payment required|余额不足|欠费\n\
    api key not valid|invalid api key|incorrect api key|invalid api-key|invalid token\
    |no auth credentials\n\
    jinja|templateerror|template error|raise_exception|roles must alternate\
    |system message must be at the beginning|does not support tools|does not support thinking\n\
    content management policy|content_filter|content filter|data_inspection_failed\n\
    overloaded|server_error|server error|internal_error|internal error|unavailable|timeout|timed out\
    |try again later|at capacity|no capacity|upstream|disconnected|connection reset\
    |connection refused|connection closed|network\n\
    context\n\
    unsupported|not supported|unknown|unrecognized|unexpected|extra inputs|extra_forbidden\
    |additional properties\n\
    must be passed back|missing\n\
    max_completion_tokens\n\
    max_tokens\n\
    max_new_tokens\n\
    does not support\n\
    tool_choice\n\
    'messages.|messages[\n\
    temperature\n\
    only 1 is allowed\n\
    must not be empty|cannot be empty|content is empty|non-empty content\n\
    content";

/// The lists of [`CODES`] in order.
pub const CODE_CONTEXT: u32 = 1 << 20;
pub const CODE_BILLING: u32 = 1 << 21;
pub const CODE_AUTH: u32 = 1 << 22;
pub const CODE_LIMIT: u32 = 1 << 23;
pub const CODE_TRANSIENT: u32 = 1 << 24;
pub const CODE_FATAL: u32 = 1 << 25;

/// Codes, types and reasons. Generic ones (`invalid_request_error`) are not here: the words decide then.
pub const CODES: &str = "context_length_exceeded|exceed_context_size_error|tokens_too_long|request_too_large|1261\n\
    insufficient_quota|insufficient_balance|insufficient_user_quota\
    |exceeded_current_quota_error|billing_hard_limit_reached|billing_not_active|billing_error\
    |payment_required|arrearage|creditserror|1113|1308|1309|1310\n\
    invalid_api_key|api_key_invalid|incorrect_api_key|authentication_error\
    |invalid_authentication_error|unauthenticated|permission_error\n\
    rate_limit_exceeded|rate_limit_error|rate_limit_reached_error|engine_overloaded_error\
    |resource_exhausted|throttling|throttlingexception|1302|1303|1305\n\
    tool_use_failed|overloaded_error\n\
    content_filter|content_policy_violation|responsibleaipolicyviolation|data_inspection_failed\
    |datainspectionfailed|1301";

/// What only [`super::failure`] finds out: a request over the budget of a whole minute, a `Retry-After`, a body that could
/// have been shown and is not there.
pub const OVER: u32 = 1 << 26;
pub const RETRY: u32 = 1 << 27;
pub const BLANK: u32 = 1 << 28;
