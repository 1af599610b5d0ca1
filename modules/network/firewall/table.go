package firewall

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// table is the desired state of one of croft's tables.
type table struct {
	family nftables.TableFamily
	name   string
	sets   []set
	chains []chain
}

// set is a named set. keys has one type, or the types of a concatenated key.
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

// rule is its conditions, in order, and its verdict.
type rule []expr.Any

// when joins the parts of a rule.
func when(parts ...rule) rule { return slices.Concat(parts...) }

// digest is the digest of everything sent to the kernel for the tables.
func digest(tables []table) string {
	sum := sha256.New()
	for _, t := range tables {
		fmt.Fprintf(sum, "table %d %q\n", t.family, t.name)
		for _, s := range t.sets {
			var elements []string
			for _, e := range s.elements {
				elements = append(elements, fmt.Sprintf("%x-%x %v", e.Key, e.KeyEnd, e.IntervalEnd))
			}
			slices.Sort(elements)
			fmt.Fprintf(sum, "set %q %v %v %q\n", s.name, s.keys, s.interval, elements)
		}
		for _, c := range t.chains {
			fmt.Fprintf(sum, "chain %q", c.name)
			if b := c.base; b != nil {
				fmt.Fprintf(sum, " %s %d %d %d", b.kind, *b.hook, *b.priority, b.policy)
			}
			for _, r := range c.rules {
				fmt.Fprint(sum, "\nrule")
				for _, e := range r {
					// An expression that can't be encoded fails when it is sent.
					raw, err := expr.Marshal(byte(t.family), e)
					fmt.Fprintf(sum, " %x %v", raw, err)
				}
			}
			fmt.Fprintln(sum)
		}
	}
	return short(sum.Sum(nil))
}
