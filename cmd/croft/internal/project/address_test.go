package project_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/croft-edge/croft/cmd/croft/internal/project"
)

// TestAddressesAreOfTheNetwork: what a node would refuse at the end is said
// before anything is pushed.
func TestAddressesAreOfTheNetwork(t *testing.T) {
	const head = `project: p
node: NODE1
duration: 1d
workloads:
  net:
    network:
      name: net1
      ip_range: 10.1.0.0/16
      net_resources:
        - {node_id: NODE2, subnet: 10.1.2.0/24}
        - {node_id: NODE1, subnet: 10.1.1.0/28}
`
	member := func(name, network, ips string) string {
		return "  " + name + ":\n    container: {flist: x, capacity: {cpu: 1, memory: 1}, network: {" + network + ", ips: [" + ips + "]}}\n"
	}
	for _, c := range []struct {
		file string
		line int
		says string
	}{
		{member("a", "name: net", "10.1.1.2, 10.1.1.14"), 0, ""},
		{member("a", "name: net", "10.1.1.2") + member("b", "name: net", "10.1.1.3"), 0, ""},
		{member("a", "network_id: elsewhere", "10.9.9.9"), 0, ""},
		{member("a", "network_id: one", "10.9.9.9") + member("b", "network_id: two", "10.9.9.9"), 0, ""},
		{member("a", "name: net", "10.1.1.2, 10.1.2.2"), 13, `workloads.a.container.network.ips[1]: is "10.1.2.2", must be in 10.1.1.0/28, the network's part on this node`},
		{member("a", "network_id: net1", "10.1.2.2"), 13, `must be in 10.1.1.0/28`},
		{member("a", "name: net", "10.1.1.0"), 13, `ips[0]: is "10.1.1.0", must be neither the first nor the last address of 10.1.1.0/28`},
		{member("a", "name: net", "10.1.1.15"), 13, `must be neither the first nor the last address of 10.1.1.0/28`},
		{member("a", "name: net", "10.1.1.1"), 13, `is "10.1.1.1", which is the gateway's`},
		{member("a", "name: net", "\"fd00::5\""), 13, `is "fd00::5", must be an IPv4 address`},
		{member("a", "network_id: elsewhere", "\"fd00::5\""), 13, `must be an IPv4 address`},
		{member("a", "name: net", "10.1.1.2") + member("b", "network_id: net1", "10.1.1.3, 10.1.1.2"), 15, `workloads.b.container.network.ips[1]: is "10.1.1.2", which "a" asks for too`},
		{member("a", "network_id: out", "10.1.1.2") + member("b", "network_id: out", "\"::ffff:10.1.1.2\""), 15, `which "a" asks for too`},
		{member("a", "name: net", "10.1.1.2") + "  k:\n    kubernetes: {size: 1, network: net, ip: 10.1.1.2}\n", 15, `workloads.k.kubernetes.ip: is "10.1.1.2", which "a" asks for too`},
	} {
		_, err := project.Parse("croft.yaml", withNodes(t, head+c.file))
		var e *project.Error
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%q: %v", c.file, err)
		case c.says != "" && (!errors.As(err, &e) || e.Line != c.line || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%q: %v, must say %q at line %d", c.file, err, c.says, c.line)
		}
	}
}

func TestAddressesAreOfANetworkAcrossNodes(t *testing.T) {
	file := `project: p
duration: 1d
networks:
  net1:
    ip_range: 10.1.0.0/16
    nodes:
      - {node: NODE1, subnet: 10.1.1.0/24, listen_port: 5000, private_key: {secret: env:WG_ONE}}
workloads:
  web:
    node: NODE1
    container: {flist: x, capacity: {cpu: 1, memory: 1}, network: {name: net1, ips: [10.1.9.2]}}
`
	_, err := project.Parse("croft.yaml", withNodes(t, file))
	if err == nil || !strings.Contains(err.Error(), "line 11: workloads.web.container.network.ips[0]") || !strings.Contains(err.Error(), "must be in 10.1.1.0/24") {
		t.Errorf("got %v", err)
	}
}

// TestContainerChecksMatchTheNode: what a container's document can't say
// is said with its line.
func TestContainerChecksMatchTheNode(t *testing.T) {
	user, _ := nodes(t)
	const head = "project: p\nnode: NODE1\nduration: 1d\nworkloads:\n  a:\n    container:\n      flist: docker://example.org/a\n      capacity: {cpu: 1, memory: 64}\n      network: {network_id: n, ips: [10.0.0.2]}\n"
	for _, c := range []struct{ more, says string }{
		{"      entrypoint: sh -c 'echo", `workloads.a.container.entrypoint: is "sh -c 'echo"`},
		{"      entrypoint: \"''\"", "whose first word isn't empty"},
		{"      mounts: [{volume_id: 1-1, mountpoint: /proc/x}]", "mounts[0].mountpoint"},
		{"      mounts: [{volume_id: 1-1, mountpoint: /a}, {volume_id: 2-1, mountpoint: /b/../a}]", "mounts[1].mountpoint"},
		{"      mounts: [{volume_id: 1-1, mountpoint: a}]", "mounts[0].mountpoint"},
		{"      env: {\"A=B\": x}", "env"},
		{"      env: {\"A\\nB\": x}", "env"},
		{"      env: {A: \"x\\0y\"}", "workloads.a.container.env.A"},
	} {
		f, err := project.Parse("croft.yaml", withNodes(t, head+c.more))
		if err != nil {
			t.Errorf("%s: %v", c.more, err)
			continue
		}
		err = f.Find("a").Check(user)
		var e *project.Error
		if !errors.As(err, &e) || e.Line != 10 || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, must say %q at line 10", c.more, err, c.says)
		}
	}
}
