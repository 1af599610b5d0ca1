package command

import (
	"cmp"
	"fmt"

	"github.com/croft-edge/croft/cmd/croftd/internal/cell"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/pkg/resources/host"
)

// writeCeilings prints the limits and usage of croft's own parts.
func writeCeilings(row module.Row, all []host.CeilingSpec) {
	if len(all) == 0 {
		return
	}
	row("")
	row("PART", "MEMORY", "OF", "PROCESSES", "IO WEIGHT", "CPU WEIGHT", "KILLED FOR MEMORY", "CAN'T BE LIMITED")
	for _, c := range all {
		row(c.Part, cell.MiB(c.Used), ofMiB(c.Memory), number(c.PIDs), number(c.IOWeight), number(c.CPUWeight), fmt.Sprint(c.OOMKills), cmp.Or(joined(c.Missing), "-"))
	}
}

func ofMiB(bytes uint64) string {
	if bytes == 0 {
		return "-"
	}
	return cell.MiB(bytes)
}

func number(n uint64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}
