package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/croft-edge/croft/bootstrap/node/inside/wire"
)

// boot boots the node, serves its requests, and prints what the tests print.
func boot(ctx context.Context, o options, dir string) error {
	var listen net.ListenConfig
	builds, err := listen.Listen(ctx, "unix", filepath.Join(dir, "build"))
	if err != nil {
		return err
	}
	defer builds.Close()
	results, err := listen.Listen(ctx, "unix", filepath.Join(dir, "result"))
	if err != nil {
		return err
	}
	defer results.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	qemu := exec.CommandContext(ctx, "qemu-system-x86_64", qemuArguments(o, dir)...)
	qemu.Stderr = os.Stderr
	if err := qemu.Start(); err != nil {
		return fmt.Errorf("cannot start QEMU: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = qemu.Wait()
		say("QEMU has ended: %v", qemu.ProcessState)
		builds.Close()
		results.Close()
	}()
	finished := make(chan error, 2)
	go func() {
		conn, err := builds.Accept()
		if err == nil {
			err = serveBuilds(ctx, conn)
		}
		if err != nil {
			say("no more programs are built: %v", err)
		}
	}()
	go func() { finished <- show(results) }()
	began := time.Now()
	err = <-finished
	if err == nil {
		// The machine switches itself off.
		select {
		case <-ended:
		case <-time.After(time.Minute):
			cancel()
			<-ended
		}
		say("the node ran for %s", time.Since(began).Round(time.Second))
		return nil
	}
	cancel()
	<-ended
	tail(filepath.Join(dir, "console"))
	return err
}

// show prints what the tests print, until they have ended.
func show(results net.Listener) error {
	conn, err := results.Accept()
	if err != nil {
		return errors.New("cannot hear of the tests: the machine has ended")
	}
	defer conn.Close()
	lines := bufio.NewReader(conn)
	for {
		line, err := lines.ReadString('\n')
		if strings.TrimSpace(line) == wire.Done {
			return nil
		}
		_, _ = os.Stdout.WriteString(line)
		if err != nil {
			fmt.Println("FAIL\tthe machine ended before its tests\t0s")
			return errors.New("cannot hear of all tests: the machine has ended before")
		}
	}
}

// tail shows the last lines of the machine's console.
func tail(file string) {
	raw, _ := os.ReadFile(file)
	lines := strings.Split(string(raw), "\n")
	for _, line := range lines[max(0, len(lines)-60):] {
		say("console: %s", strings.TrimSpace(line))
	}
}

func qemuArguments(o options, dir string) []string {
	parameters := "console=ttyS0 quiet cryptomgr.notests croft.test=" + wire.TestLabel + " " + o.parameters
	acceleration := []string{"-accel", "kvm", "-cpu", "host"}
	if !o.kvm {
		// A slow machine can't measure its clock.
		acceleration = []string{"-accel", "tcg,thread=" + map[bool]string{false: "multi", true: "single"}[o.single]}
		parameters += " tsc_early_khz=2000000"
	}
	return append(acceleration,
		"-machine", "q35", "-smp", "2", "-m", strconv.Itoa(o.memory), "-display", "none", "-no-reboot", "-nodefaults",
		"-kernel", filepath.Join(o.image, "vmlinuz"), "-initrd", filepath.Join(o.image, "initrd"), "-append", parameters, "-cdrom", o.iso,
		"-serial", "file:"+filepath.Join(dir, "console"),
		"-drive", "if=none,id=test,format=raw,file="+filepath.Join(dir, testDisk), "-device", "virtio-blk-pci,drive=test,serial=test",
		"-drive", "if=none,id=scratch,format=raw,cache=unsafe,discard=unmap,file="+filepath.Join(dir, scratchDisk), "-device", "virtio-blk-pci,drive=scratch,serial=scratch",
		"-netdev", "user,id=n", "-device", "virtio-net-pci,netdev=n",
		"-device", "virtio-serial-pci",
		"-chardev", "socket,id=build,path="+filepath.Join(dir, "build"), "-device", "virtserialport,chardev=build,name="+wire.BuildPort,
		"-chardev", "socket,id=result,path="+filepath.Join(dir, "result"), "-device", "virtserialport,chardev=result,name="+wire.ResultPort,
	)
}
