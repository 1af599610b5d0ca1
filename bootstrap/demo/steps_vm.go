package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/croft-edge/croft/internal/testing/vmguest"
)

// smallVM is what the user adds to the network's project file.
const smallVM = `
  vm:
    node: %[2]s
    kubernetes: {size: 15, network: home, ip: %[1]s, cluster_secret: {secret: file:cluster.secret}, ssh_keys: [github:somebody]}
`

// imageFolder is the node's image of VMs: without another one not Kubernetes, but a small guest that boots quickly without KVM.
func (s *stage) imageFolder() string { return cmp.Or(s.image, s.path("vm-image")) }

// runMachine reserves a virtual machine on the network, asks it from a container, and takes it down again.
func runMachine(ctx context.Context, w *world) error {
	if err := vmguest.MakeImage(w.stage.imageFolder()); err != nil {
		return err
	}
	secret := make([]byte, 16)
	if _, err := rand.Read(secret); err != nil {
		return err
	}
	if err := os.WriteFile(w.stage.path("cluster.secret"), []byte(hex.EncodeToString(secret)), 0o600); err != nil {
		return err
	}
	before, err := os.ReadFile(w.net.file)
	if err != nil {
		return err
	}
	address := w.net.web.address[:strings.LastIndexByte(w.net.web.address, '.')] + ".40"
	if err := os.WriteFile(w.net.file, append(before, fmt.Appendf(nil, smallVM, address, w.node.id)...), 0o600); err != nil {
		return err
	}
	began := time.Now()
	if _, err := w.user.croft(ctx, "apply", "-f", w.net.file, "--wait", "--timeout", "60s"); err != nil {
		return err
	}
	say("applied in %d ms", time.Since(began).Milliseconds())
	var name []byte
	err = until(ctx, 60*time.Second, "the machine answers the container", func() (bool, error) {
		name, err = w.user.croft(ctx, "exec", w.net.me.id, "--", "/hello", "get", "http://"+address+"/")
		return err == nil, err
	})
	if err != nil {
		return err
	}
	say("booted; a container asks http://%s/ %.1f s after it was asked for: %q", address, time.Since(began).Seconds(), name)
	table, err := w.user.croft(ctx, "status", "-f", w.net.file)
	if err != nil {
		return err
	}
	show(table)
	console, err := w.user.croft(ctx, "logs", "--tail", "2", "--file", w.net.file, "vm")
	if err != nil {
		return err
	}
	say("croft logs, its console:")
	show(console)
	return w.endMachine(ctx, before)
}

// endMachine powers the machine off and removes it; before is the project without it.
func (w *world) endMachine(ctx context.Context, before []byte) error {
	began := time.Now()
	if _, err := w.user.croft(ctx, "delete", "-f", w.net.file, "--wait", "--yes", "vm"); err != nil {
		return err
	}
	say("deleted: powered off, and gone with its disk, after %.1f s", time.Since(began).Seconds())
	return os.WriteFile(w.net.file, before, 0o600)
}
