package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/croft-edge/croft/internal/testing/imagetest"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodeapi"
)

// containers is the part that the user adds to the network's project file.
const containers = `
workloads:
  web:
    node: %[5]s
    container:
      flist: %[1]s
      entrypoint: /hello serve
      mounts: [{volume_id: %[2]s, mountpoint: /data}]
      network: {name: home, ips: [%[3]s]}
      capacity: {cpu: 1, memory: 64}
  shell:
    node: %[5]s
    container:
      flist: %[1]s
      entrypoint: /hello wait
      network: {name: home, ips: [%[4]s]}
      capacity: {cpu: 1, memory: 64}
`

// runContainers reserves two containers on the network.
func runContainers(ctx context.Context, w *world) error {
	image, err := w.stage.packImage()
	if err != nil {
		return err
	}
	subnet, _, _ := strings.Cut(w.net.info.Subnet, "/")
	part := subnet[:strings.LastIndexByte(subnet, '.')]
	w.net.web.address, w.net.me.address = part+".10", part+".11"
	text, err := os.ReadFile(w.net.file)
	if err != nil {
		return err
	}
	text = fmt.Appendf(text, containers, image, w.kept["data"].id, w.net.web.address, w.net.me.address, w.node.id)
	if err := os.WriteFile(w.net.file, text, 0o600); err != nil {
		return err
	}
	began := time.Now()
	if _, err := w.user.croft(ctx, "apply", "-f", w.net.file, "--wait", "--timeout", "60s"); err != nil {
		return err
	}
	say("applied in %d ms", time.Since(began).Milliseconds())
	table, err := w.user.croft(ctx, "status", "-f", w.net.file)
	if err != nil {
		return err
	}
	show(table)
	rows, err := w.user.status(ctx, w.net.file)
	if err != nil {
		return err
	}
	for _, row := range rows {
		for name, m := range map[string]*member{"web": &w.net.web, "shell": &w.net.me} {
			if row.Name == name {
				m.id, m.namespace = row.ID, w.stage.path("run", "container", row.ID, "net")
			}
		}
	}
	info, err := w.node.container(ctx, w.net.web.id)
	if err != nil {
		return err
	}
	w.net.pid = info.PID
	owners, err := os.ReadFile(fmt.Sprintf("/proc/%d/uid_map", info.PID))
	say("on the node: process %d; its users, theirs on the node, how many: %s", info.PID, strings.Join(strings.Fields(string(owners)), " "))
	return err
}

// talkToContainer speaks to the node about the container, as its owner.
func talkToContainer(ctx context.Context, w *world) error {
	logs, err := w.user.croft(ctx, "logs", "--tail", "2", w.net.web.id)
	if err != nil {
		return err
	}
	if !strings.Contains(string(logs), "visit 2 from "+w.net.me.address) {
		return fmt.Errorf("the log lacks the second visit: %q", logs)
	}
	say("croft logs:")
	show(logs)
	visits, err := w.user.croft(ctx, "exec", w.net.web.id, "--", "/hello", "cat", "/data/visits")
	if err != nil {
		return err
	}
	onDisk, err := os.ReadFile(filepath.Join(w.kept["data"].path, "visits"))
	if err != nil || string(onDisk) != string(visits) {
		return fmt.Errorf("the container says %q, on the volume is %q, %w", visits, onDisk, err)
	}
	say("croft exec: /data/visits says %s, and so does the volume on the node's disk", visits)
	stats, err := w.user.croft(ctx, "stats", w.net.web.id)
	if err != nil {
		return err
	}
	show(stats)
	out, err := w.stranger.croft(ctx, "logs", w.net.web.id)
	if err == nil {
		return fmt.Errorf("somebody else reads the log: %q", out)
	}
	say("somebody else's key: %s", lastLine(err))
	return nil
}

// killProgram kills the container's first process on the node.
func killProgram(ctx context.Context, w *world) error {
	began, killed := time.Now(), w.net.pid
	if err := syscall.Kill(int(killed), syscall.SIGKILL); err != nil {
		return err
	}
	err := until(ctx, 30*time.Second, "the container runs again", func() (bool, error) {
		info, err := w.node.container(ctx, w.net.web.id)
		if err != nil {
			return false, err
		}
		if info.State != node.ContainerRunning || info.PID == killed {
			return false, fmt.Errorf("it is %s, process %d; %s; %s", info.State, info.PID, info.Cause, info.Drift)
		}
		w.net.pid = info.PID
		_, err = w.net.get(ctx, w.net.site())
		return err == nil, err
	})
	if err != nil {
		return err
	}
	took := time.Since(began)
	out, err := w.user.croft(ctx, "-o", "json", "status", "-f", w.net.file)
	if err != nil {
		return err
	}
	var rows []struct {
		Name string `json:"name"`
		Node struct {
			Container nodeapi.Container `json:"container"`
		} `json:"at_node"`
	}
	if err := json.Unmarshal(out, &rows); err != nil {
		return err
	}
	for _, row := range rows {
		if c := row.Node.Container; row.Name == "web" && c.Restarts == 1 {
			say("it answers again after %d ms; croft status: started again %d time, exit code %d", took.Milliseconds(), c.Restarts, c.ExitCode)
			return nil
		}
	}
	return fmt.Errorf("croft status doesn't say that it was started again: %s", out)
}

// sameProcess checks that the container was neither started again nor doubled.
func sameProcess(ctx context.Context, w *world) error {
	info, err := w.node.container(ctx, w.net.web.id)
	if err == nil && info.PID != w.net.pid {
		err = fmt.Errorf("the container's process was %d and is %d", w.net.pid, info.PID)
	}
	return err
}

// packImage packs a static program into an OCI image, as a tar.
func (s *stage) packImage() (string, error) {
	if err := os.MkdirAll(s.path("images"), 0o755); err != nil {
		return "", err
	}
	_, self, _, ok := runtime.Caller(0)
	if !ok {
		return "", errors.New("the demo doesn't know where its source is")
	}
	file := s.path("images", "hello.tar")
	_, err := imagetest.New().Package("/hello", filepath.Join(filepath.Dir(self), "hello")).Config(func(c *v1.Config) {
		c.Entrypoint = []string{"/hello"}
	}).Tar(file)
	return file, err
}
