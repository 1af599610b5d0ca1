package spec

import (
	"slices"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// Exec is a further process in the container that was made of that
// specification: as the same user, with the same limits and no more rights than
// the first one. env ("NAME=value") goes over the first process's; with a
// terminal TERM is xterm where nobody says otherwise.
func Exec(of *specs.Spec, args []string, terminal bool, env []string) *specs.Process {
	p := *of.Process
	p.Args = slices.Clone(args)
	p.Terminal = terminal
	p.ConsoleSize = nil
	p.Env = over(p.Env, env)
	if terminal && !has(p.Env, "TERM") {
		p.Env = append(p.Env, "TERM=xterm")
	}
	return &p
}

// over puts variables over others: each name is there once, where it stood first.
func over(env, more []string) []string {
	place := map[string]int{}
	var out []string
	for _, entry := range slices.Concat(env, more) {
		name, _, _ := strings.Cut(entry, "=")
		if i, there := place[name]; there {
			out[i] = entry
			continue
		}
		place[name] = len(out)
		out = append(out, entry)
	}
	return out
}

func has(env []string, name string) bool {
	return slices.ContainsFunc(env, func(entry string) bool { return strings.HasPrefix(entry, name+"=") })
}
