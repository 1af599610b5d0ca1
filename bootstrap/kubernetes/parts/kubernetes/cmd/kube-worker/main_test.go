package main

import "testing"

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"kube-worker"}, ""},
		{[]string{"kube-worker", ""}, ""},
		{[]string{"kube-worker", "--version"}, ""},
		{[]string{"kube-worker", "kube-proxy"}, ""},
		{[]string{"kube-worker", "kubelet", "--v=2"}, "kubelet"},
		{[]string{"kube-worker", "proxy"}, "kube-proxy"},
	} {
		name := ""
		if command := choose(c.args); command != nil {
			name = command.Name()
		}
		if name != c.want {
			t.Errorf("%q: command %q, want %q", c.args, name, c.want)
		}
	}
}
