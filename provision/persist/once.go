package persist

import "context"

// onceKey is the key of Once's contexts.
type onceKey struct{}

// Once has PutObject tried once with that context, where it may be tried several times else: a first try that broke off may arrive late, after one that
// has succeeded, and take the place of what was put after that.
func Once(ctx context.Context) context.Context { return context.WithValue(ctx, onceKey{}, true) }

// IsOnce reports whether the context is one of Once.
func IsOnce(ctx context.Context) bool { return ctx.Value(onceKey{}) != nil }
