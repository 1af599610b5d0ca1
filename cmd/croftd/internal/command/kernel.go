package command

import (
	"github.com/croft-edge/croft/cmd/croftd/internal/cell"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/pkg/resources/host"
)

// writeKernel prints what modules lack of the machine's kernel; nothing when that has all.
func writeKernel(row module.Row, modules []host.ModuleSpec) {
	first := true
	for _, m := range modules {
		if m.Kernel == nil {
			continue
		}
		for _, l := range m.Kernel.Lacks {
			if first {
				row("")
				row("KERNEL", "MODULE", "STATE", "EFFECT", "WHY")
				first = false
			}
			row(cell.Printable(l.Feature), m.Name, l.State, cell.Printable(l.Effect), cell.Printable(l.Why))
		}
	}
}
