package provision

import (
	"context"

	"github.com/threefoldtech/zbus"
)

// contextKey names what the context helpers keep.
type contextKey int

const (
	zbusKey contextKey = iota
	ownerCacheKey
	zdbMappingKey
)

// WithZBus puts the bus's client into a context. Run of an engine made by New
// reads it once, for its provisioners and its signer.
func WithZBus(ctx context.Context, client zbus.Client) context.Context {
	return context.WithValue(ctx, zbusKey, client)
}

// GetZBus returns the bus's client, nil when there is none.
func GetZBus(ctx context.Context) zbus.Client {
	client, _ := ctx.Value(zbusKey).(zbus.Client)
	return client
}

// WithOwnerCache puts what knows the reservations' owners into a context.
func WithOwnerCache(ctx context.Context, cache OwnerCache) context.Context {
	return context.WithValue(ctx, ownerCacheKey, cache)
}

// GetOwnerCache returns what knows the reservations' owners, nil when there is none.
func GetOwnerCache(ctx context.Context) OwnerCache {
	cache, _ := ctx.Value(ownerCacheKey).(OwnerCache)
	return cache
}

// WithZDBMapping puts what knows the namespaces' containers into a context.
func WithZDBMapping(ctx context.Context, mapping ZDBMapping) context.Context {
	return context.WithValue(ctx, zdbMappingKey, mapping)
}

// GetZDBMapping returns what knows the namespaces' containers, nil when there is none.
func GetZDBMapping(ctx context.Context) ZDBMapping {
	mapping, _ := ctx.Value(zdbMappingKey).(ZDBMapping)
	return mapping
}

// NewCache makes an OwnerCache that asks local first, then remote. An owner
// never changes, so what was learned is kept.
func NewCache(local, remote ReservationGetter) OwnerCache {
	return &ownerCache{local: local, remote: remote, known: map[string]string{}}
}
