package main

import (
	"fmt"
	"path"
	"strings"
)

// busPath is the package of Methods.
const busPath = "github.com/croft-edge/croft/pkg/bus"

// addTable appends the table of the contract's methods to the source of its stub; ok is false where the source's imports weren't
// recognized. Methods that aren't exported are left out: nobody outside of their package can call them.
func addTable(src string, c contract) (out string, ok bool) {
	const imports = "\nimport (\n"
	if strings.Count(src, imports) != 1 {
		return "", false
	}
	// The formatting sorts the imports, and drops one that zbusc has made already.
	pkg := path.Base(c.iface.PkgPath())
	src = strings.Replace(src, imports, fmt.Sprintf("%s\tbus %q\n\t%s %q\n", imports, busPath, pkg, c.iface.PkgPath()), 1)
	var table strings.Builder
	name := c.iface.Name()
	fmt.Fprintf(&table, "\n// %sMethods are the methods of an implementation, for bus.RegisterMethods; nil where it is nil.\n", name)
	fmt.Fprintf(&table, "func %sMethods(of %s.%s) bus.Methods {\n\tif of == nil {\n\t\treturn nil\n\t}\n\treturn bus.Methods{\n", name, pkg, name)
	for i := range c.iface.NumMethod() {
		if m := c.iface.Method(i); m.IsExported() {
			fmt.Fprintf(&table, "\t\t%q: of.%s,\n", m.Name, m.Name)
		}
	}
	table.WriteString("\t}\n}\n")
	return src + table.String(), true
}
