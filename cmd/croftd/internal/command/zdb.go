package command

import (
	"cmp"
	"fmt"
	"net"

	"github.com/croft-edge/croft/pkg/node"
)

// writeZDB prints the zdb containers: where they answer, and for how many.
func writeZDB(row func(cells ...string), servers []node.ZDBServer) {
	if len(servers) == 0 {
		return
	}
	row("")
	row("ZDB", "MODE", "IPV4", "IPV6", "NAMESPACES", "DATA", "DRIFT")
	for _, s := range servers {
		row(s.Container, string(s.Mode), reached(s.IPv4, s.Port), reached(s.IPv6, s.Port), fmt.Sprint(s.Namespaces), s.Data, printable(cmp.Or(s.Drift, "-")))
	}
}

func reached(ip string, port uint16) string {
	if ip == "" {
		return "-"
	}
	return net.JoinHostPort(ip, fmt.Sprint(port))
}
