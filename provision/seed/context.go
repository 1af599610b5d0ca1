package seed

import (
	"context"

	"github.com/croft-edge/croft/pkg/workload"
)

// contextKey names what the context helpers keep.
type contextKey int

const (
	zbusKey contextKey = iota
	ownerCacheKey
	zdbMappingKey
)

// WithOwnerCache puts what knows the reservations' owners into a context.
func WithOwnerCache(ctx context.Context, cache workload.OwnerCache) context.Context {
	return context.WithValue(ctx, ownerCacheKey, cache)
}

// GetOwnerCache returns what knows the reservations' owners, nil when there is none.
func GetOwnerCache(ctx context.Context) workload.OwnerCache {
	cache, _ := ctx.Value(ownerCacheKey).(workload.OwnerCache)
	return cache
}

// WithZDBMapping puts what knows the namespaces' containers into a context.
func WithZDBMapping(ctx context.Context, mapping workload.ZDBMapping) context.Context {
	return context.WithValue(ctx, zdbMappingKey, mapping)
}

// GetZDBMapping returns what knows the namespaces' containers, nil when there is none.
func GetZDBMapping(ctx context.Context) workload.ZDBMapping {
	mapping, _ := ctx.Value(zdbMappingKey).(workload.ZDBMapping)
	return mapping
}

// NewCache makes an OwnerCache that asks local first, then remote. An owner
// never changes, so what was learned is kept.
func NewCache(local, remote workload.ReservationGetter) workload.OwnerCache {
	return &ownerCache{local: local, remote: remote, known: map[string]string{}}
}
