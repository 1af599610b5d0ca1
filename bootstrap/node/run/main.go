// Command run boots the node's image in QEMU, for developers: with an explorer beside it, a disk that stays, and the machine's serial line on
// this terminal. It runs in the root folder of croft's source, after make build and make image:
//
//	run -bin FOLDER -image FOLDER [-kvm] [-memory MIB] [-parameters "croft.NAME=VALUE …"]
//
// The folder IMAGE/run has the explorer's database and the machine's disk; remove it to begin anew. Ctrl-A X ends the machine as a power cut does.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/croft-edge/croft/modules/vm/qemu"
)

const (
	// host is this machine's address in QEMU's user network.
	host = "10.0.2.2"
	// diskBytes is the size of the machine's disk, a sparse file.
	diskBytes = 20 << 30
	door      = "9178"
)

type config struct {
	bin, image, parameters string
	memory                 int
	kvm                    bool
	// clock are the kernel's parameters about the clock of an emulated machine.
	clock string
}

func main() {
	var c config
	flag.StringVar(&c.bin, "bin", "bin", "folder with croft's programs")
	flag.StringVar(&c.image, "image", "bin/node", "folder of the image")
	flag.StringVar(&c.parameters, "parameters", "", "further parameters for the kernel's command line")
	flag.IntVar(&c.memory, "memory", 2048, "memory of the machine, in MiB")
	flag.BoolVar(&c.kvm, "kvm", false, "use KVM")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	err := run(ctx, c)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, c config) error {
	folder := filepath.Join(c.image, "run")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	disk := filepath.Join(folder, "disk.raw")
	if err := sparse(disk); err != nil {
		return err
	}
	port, err := freePort(ctx)
	if err != nil {
		return err
	}
	explorer := exec.CommandContext(ctx, filepath.Join(c.bin, "explorer"), "--listen", "127.0.0.1:"+port, "--db", filepath.Join(folder, "explorer.db"))
	log, err := os.Create(filepath.Join(folder, "explorer.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	explorer.Stdout, explorer.Stderr = log, log
	explorer.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	if err := explorer.Start(); err != nil {
		return fmt.Errorf("cannot start the explorer: %w", err)
	}
	defer func() {
		_ = explorer.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = explorer.Wait()
	}()
	fmt.Printf("The explorer is at http://127.0.0.1:%s: croft --explorer http://127.0.0.1:%s nodes\n", port, port)
	fmt.Println("Keys of the node's console: Enter, l, r, p. Ctrl-A X cuts the power; make run-vm boots again.")
	if !c.kvm {
		khz, err := qemu.ClockKHz(ctx, qemu.TCG)
		if err != nil {
			return err
		}
		c.clock = qemu.SteadyClock(khz)
	}
	machine := exec.CommandContext(ctx, "qemu-system-x86_64", arguments(c, disk, port)...)
	machine.Stdin, machine.Stdout, machine.Stderr = os.Stdin, os.Stdout, os.Stderr
	machine.Cancel = func() error { return machine.Process.Signal(syscall.SIGTERM) }
	machine.WaitDelay = 10 * time.Second
	err = machine.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() != nil {
		return nil
	}
	return err
}

// arguments are QEMU's.
func arguments(c config, disk, port string) []string {
	line := "console=ttyS0 quiet panic=10 cryptomgr.notests croft.disks=empty croft.farm=1 croft.explorer=http://" + host + ":" + port
	accelerator := []string{"-accel", "kvm", "-cpu", "host"}
	if !c.kvm {
		line += " " + c.clock
		accelerator = []string{"-accel", "tcg,thread=multi"}
	}
	if c.parameters != "" {
		line += " " + c.parameters
	}
	out := append([]string{"-machine", "q35", "-smp", "2", "-m", strconv.Itoa(c.memory), "-nographic"}, accelerator...)
	return append(out,
		"-kernel", filepath.Join(c.image, "vmlinuz"), "-initrd", filepath.Join(c.image, "initrd"), "-append", line,
		"-drive", "file="+filepath.Join(c.image, "croft.iso")+",format=raw,if=none,id=boot,readonly=on", "-device", "virtio-blk-pci,drive=boot",
		"-drive", "file="+disk+",format=raw,if=none,id=disk,discard=unmap", "-device", "virtio-blk-pci,drive=disk,serial=croft-run",
		"-netdev", "user,id=net,hostfwd=tcp:127.0.0.1:"+door+"-:"+door, "-device", "virtio-net-pci,netdev=net", "-device", "virtio-rng-pci")
}

// sparse makes the disk, if it isn't there.
func sparse(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() > 0 {
		return err
	}
	return f.Truncate(diskBytes)
}

func freePort(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}
