package backoff

// TogetherAt is Together for a wait that begins at now, a time since the process started.
var TogetherAt = together
