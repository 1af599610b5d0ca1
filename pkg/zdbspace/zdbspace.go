// Package zdbspace is the agreement on disk space between the zdb server and the
// provisioner: how large a namespace may grow on disk. The store (zdb/store) enforces
// the bound; the provisioner makes volumes that large, and admission counts it. Neither
// side may import the other, so the formula lies between them. It has no other content
// and no effects.
package zdbspace

import "github.com/croft-edge/croft/pkg/saturate"

// fixed is the constant part of Bound, in bytes: segments that are being written
// and cleaned.
const fixed = 256 << 20

// Bound is the maximum disk space of a namespace whose values are limited to size
// bytes: the values, a quarter more for keys, index, and overwritten or deleted
// values, and a fixed part. It is at most math.MaxUint64.
func Bound(size uint64) uint64 { return saturate.Add(size, size/4+fixed) }
