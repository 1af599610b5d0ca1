package firewall

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/croft-edge/croft/pkg/node"
)

// Fingerprint describes tables as the kernel had them, as text of some lines
// that can be kept in a file and outlives the process. The empty one has no tables.
type Fingerprint string

// snapshot is a fingerprint that was read.
type snapshot struct {
	// namespace and generation say which ruleset it was: when both are still
	// the same, so is everything.
	namespace  string
	generation uint32
	parts      map[part]string
}

// part is a table, or a chain or set of one; family is "inet" or "bridge".
// Parts are compared one by one, to name those that differ.
type part struct{ kind, family, table, name string }

func (p part) String() string {
	return strings.TrimSuffix(p.kind+" "+p.family+" "+p.table+" "+p.name, " ")
}

const fingerprintVersion = "croft-firewall-1"

// String is the text of it, in an order of its own.
func (p snapshot) fingerprint() Fingerprint {
	var lines []string
	for part, sum := range p.parts {
		lines = append(lines, part.String()+" = "+sum)
	}
	sort.Strings(lines)
	head := fmt.Sprintf("%s %d %s", fingerprintVersion, p.generation, p.namespace)
	return Fingerprint(strings.Join(append([]string{head}, lines...), "\n") + "\n")
}

// read is the other way round. node.Invalid when f isn't a fingerprint.
func (f Fingerprint) read() (snapshot, error) {
	lines := strings.Split(strings.TrimSuffix(string(f), "\n"), "\n")
	head := strings.SplitN(lines[0], " ", 3)
	if len(head) != 3 || head[0] != fingerprintVersion {
		return snapshot{}, unreadable(lines[0])
	}
	generation, err := strconv.ParseUint(head[1], 10, 32)
	if err != nil {
		return snapshot{}, unreadable(lines[0])
	}
	out := snapshot{namespace: head[2], generation: uint32(generation), parts: map[part]string{}}
	for _, line := range lines[1:] {
		name, sum, ok := strings.Cut(line, " = ")
		words := strings.Split(name, " ")
		if !ok || len(words) < 3 || len(words) > 4 {
			return snapshot{}, unreadable(line)
		}
		p := part{kind: words[0], family: words[1], table: words[2]}
		if len(words) == 4 {
			p.name = words[3]
		}
		out.parts[p] = sum
	}
	if len(out.tables()) == 0 {
		return snapshot{}, unreadable(lines[0])
	}
	return out, nil
}

func unreadable(line string) error {
	const most = 80
	if len(line) > most {
		line = line[:most]
	}
	return node.Errorf(node.Invalid, "cannot read the fingerprint of a firewall: %q isn't a line of one", line)
}

// tables are the tables in the snapshot.
func (p snapshot) tables() []part {
	var out []part
	for part := range p.parts {
		if part.kind == "table" {
			out = append(out, part)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].String() < out[j].String() })
	return out
}

// drift says how found differs from wanted, empty when it doesn't. A missing table
// is named once, without its chains.
func drift(wanted, found snapshot) string {
	gone := map[part]bool{}
	var out []string
	for _, t := range wanted.tables() {
		if _, there := found.parts[t]; !there {
			gone[part{family: t.family, table: t.table}] = true
			out = append(out, t.String()+" is gone")
		}
	}
	for p, sum := range wanted.parts {
		now, there := found.parts[p]
		switch {
		case gone[part{family: p.family, table: p.table}]:
		case !there:
			out = append(out, p.String()+" is gone")
		case now != sum:
			out = append(out, p.String()+" was changed")
		}
	}
	for p := range found.parts {
		if _, there := wanted.parts[p]; !there {
			out = append(out, p.String()+" was added")
		}
	}
	sort.Strings(out)
	const most = 5
	if more := len(out) - most; more > 0 {
		out = append(out[:most], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(out, ", ")
}
