package node

import (
	"context"
	"time"
)

type awaitKey struct{}

// AwaitAnswers returns a context whose sent calls to modules are waited for at most limit
// after the context was cancelled, and not past its deadline. A module can't be told
// that its caller has gone: a caller that gives up a call and asks the same module for
// the opposite may overtake the first one.
func AwaitAnswers(ctx context.Context, limit time.Duration) context.Context {
	return context.WithValue(ctx, awaitKey{}, limit)
}

// AnswerLimit is how long a sent call is waited for after ctx is cancelled: 0 unless
// AwaitAnswers set it.
func AnswerLimit(ctx context.Context) time.Duration {
	limit, _ := ctx.Value(awaitKey{}).(time.Duration)
	return limit
}
