package seed

import (
	"context"

	"github.com/croft-edge/croft/pkg/workload"
)

// contextKey identifies a value of the context helpers.
type contextKey int

const (
	zbusKey contextKey = iota
	ownerCacheKey
	zdbMappingKey
)

// WithOwnerCache puts an OwnerCache into a context.
func WithOwnerCache(ctx context.Context, cache workload.OwnerCache) context.Context {
	return context.WithValue(ctx, ownerCacheKey, cache)
}

// GetOwnerCache returns the context's OwnerCache, nil when there is none.
func GetOwnerCache(ctx context.Context) workload.OwnerCache {
	cache, _ := ctx.Value(ownerCacheKey).(workload.OwnerCache)
	return cache
}

// WithZDBMapping puts a ZDBMapping into a context.
func WithZDBMapping(ctx context.Context, mapping workload.ZDBMapping) context.Context {
	return context.WithValue(ctx, zdbMappingKey, mapping)
}

// GetZDBMapping returns the context's ZDBMapping, nil when there is none.
func GetZDBMapping(ctx context.Context) workload.ZDBMapping {
	mapping, _ := ctx.Value(zdbMappingKey).(workload.ZDBMapping)
	return mapping
}

// NewCache makes an OwnerCache that asks local first, then remote. It keeps remote's
// answers, because an owner never changes.
func NewCache(local, remote workload.ReservationGetter) workload.OwnerCache {
	return &ownerCache{local: local, remote: remote, known: map[string]string{}}
}
