package firewall

import (
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// table is one of croft's tables, as it shall be.
type table struct {
	family nftables.TableFamily
	name   string
	sets   []set
	chains []chain
}

// set is a named set. keys has one type, or those that are joined.
type set struct {
	name     string
	keys     []nftables.SetDatatype
	interval bool
	elements []nftables.SetElement
}

// chain is a base chain when it has a hook.
type chain struct {
	name  string
	base  *base
	rules []rule
}

// base is where packets meet a chain.
type base struct {
	kind     nftables.ChainType
	hook     *nftables.ChainHook
	priority *nftables.ChainPriority
	policy   nftables.ChainPolicy
}

// rule is what must be so, one after the other, and what is done then.
type rule []expr.Any

// when joins the parts of a rule.
func when(parts ...rule) rule { return slices.Concat(parts...) }
