//go:build boot

package media

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/croft-edge/croft/bootstrap/node/media/gpt"
	"github.com/croft-edge/croft/internal/grubenv"
	"github.com/croft-edge/croft/internal/initrd"
)

const (
	// without it kernels hang in QEMU when it emulates the processor
	emulated = "tsc_early_khz=2000000"
	bootTime = 3 * time.Minute
)

// bootFolder makes an image folder with a kernel that boots, and the media of it.
func bootFolder(t *testing.T) string {
	t.Helper()
	dir := imageFolder(t, true)
	kernels, err := filepath.Glob("/var/cache/croft-tests/guest/*/vmlinuz")
	if err != nil || len(kernels) == 0 {
		t.Fatalf("there is no kernel: bootstrap/guest fetches one: %v", err)
	}
	write(t, filepath.Join(dir, "vmlinuz"), read(t, kernels[0]))
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(dir, "init"), "./testdata/init")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	packed, err := initrd.Pack(read(t, filepath.Join(dir, "init")), nil)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "initrd"), append(imageDirectory(), packed...))
	c := Config{Folder: dir, Arguments: "panic=-1 " + emulated, SlotSize: 32 << 20}
	if err := Build(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return dir
}

// imageDirectory is a cpio archive with the folder /image, into which iPXE puts files.
func imageDirectory() []byte {
	var out bytes.Buffer
	for i, e := range []struct {
		name string
		mode int
	}{{"image", 0o040755}, {"TRAILER!!!", 0}} {
		fmt.Fprintf(&out, "070701%08X%08X%024X%08X%040X%08X%08X%s\x00", i+1, e.mode, 0, 0, 0, len(e.name)+1, 0, e.name)
		out.Write(make([]byte, -out.Len()&3))
	}
	return append(out.Bytes(), make([]byte, -out.Len()&511)...)
}

// console is what a machine prints on its serial port.
type console struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (c *console) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.Write(b)
}

func (c *console) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.ReplaceAll(c.text.String(), "\r", "")
}

// commandLine is the kernel's, as the last machine printed it.
func (c *console) commandLine() string {
	_, rest, _ := strings.Cut(c.String(), "COMMANDLINE: ")
	line, _, _ := strings.Cut(rest, "\n")
	return line
}

// run boots a machine until its process 1 switches it off.
func run(t *testing.T, seen, keys string, args ...string) *console {
	t.Helper()
	out := start(t, seen, keys, args...)
	if !strings.Contains(out.String(), "END") {
		t.Fatalf("no process 1 ran:\n%s", out)
	}
	return out
}

// start starts a machine, and waits until it is off or would start again. When it prints the text seen, keys are typed
// on its serial port.
func start(t *testing.T, seen, keys string, args ...string) *console {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bootTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", append([]string{
		"-machine", "q35", "-accel", "tcg,thread=multi", "-smp", "2", "-m", "512", "-display", "none", "-monitor", "none", "-serial", "stdio",
		"-no-reboot", "-nodefaults", "-vga", "std",
	}, args...)...)
	out := &console{}
	var problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = out, &problems
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if seen != "" {
		for tick := time.NewTicker(50 * time.Millisecond); ctx.Err() == nil; <-tick.C {
			if strings.Contains(out.String(), seen) {
				_, _ = io.WriteString(in, keys)
				break
			}
		}
	}
	err = cmd.Wait()
	t.Logf("%v: %q", time.Since(began).Round(time.Second/10), out.commandLine())
	if err != nil {
		t.Fatalf("the machine: %v: %s\n%s", err, problems.String(), out)
	}
	return out
}

// firmware are QEMU's arguments for a machine's firmware.
func firmware(t *testing.T, kind string) []string {
	t.Helper()
	if kind == "BIOS" {
		return nil
	}
	variables := filepath.Join(t.TempDir(), "variables")
	write(t, variables, read(t, "/usr/share/OVMF/OVMF_VARS_4M.fd"))
	return []string{
		"-drive", "if=pflash,format=raw,unit=0,readonly=on,file=/usr/share/OVMF/OVMF_CODE_4M.fd",
		"-drive", "if=pflash,format=raw,unit=1,file=" + variables,
	}
}

func device(kind, path string) []string {
	drive := "if=none,id=medium,format=raw,file=" + path
	switch kind {
	case "CD":
		return []string{"-drive", drive + ",media=cdrom,readonly=on", "-device", "ide-cd,drive=medium"}
	case "USB":
		return []string{"-drive", drive, "-device", "qemu-xhci", "-device", "usb-storage,drive=medium"}
	case "virtio, read-only":
		return []string{"-drive", drive + ",readonly=on", "-device", "virtio-blk-pci,drive=medium"}
	default:
		return []string{"-drive", drive, "-device", "ide-hd,drive=medium"}
	}
}

// TestBoot boots both media by BIOS and UEFI, from each kind of device that they are for.
func TestBoot(t *testing.T) {
	folder := bootFolder(t)
	for _, c := range [][2]string{{"CD", ISO}, {"USB", ISO}, {"USB", Disk}, {"disk", Disk}} {
		for _, kind := range []string{"BIOS", "UEFI"} {
			t.Run(c[1]+" "+c[0]+" "+kind, func(t *testing.T) {
				out := run(t, "", "", append(firmware(t, kind), device(c[0], filepath.Join(folder, c[1]))...)...)
				want := "console=tty0 console=ttyS0,115200 croft.slot=a panic=-1 " + emulated
				if got := out.commandLine(); strings.TrimSpace(strings.TrimPrefix(got, "BOOT_IMAGE=/croft/a/vmlinuz ")) != want {
					t.Errorf("the command line is %q, must be %q", got, want)
				}
			})
		}
	}
}

// slots is a copy of croft.img with an image in both slots.
type slots struct {
	t      *testing.T
	path   string
	offset int64
}

func newSlots(t *testing.T, folder string) slots {
	t.Helper()
	s := slots{t: t, path: filepath.Join(t.TempDir(), "disk"), offset: int64(diskTable(32 << 20).Partitions[1].Start) * gpt.Sector}
	command(t, "cp", "--sparse=always", filepath.Join(folder, Disk), s.path)
	for _, name := range []string{"vmlinuz", "initrd"} {
		s.put(filepath.Join(folder, name), "/croft/b/"+name)
	}
	arguments := filepath.Join(t.TempDir(), "cmdline")
	command(t, "mcopy", "-i", s.image(), "::/croft/a/cmdline", arguments)
	s.put(arguments, "/croft/b/cmdline")
	return s
}

func (s slots) image() string { return fmt.Sprintf("%s@@%d", s.path, s.offset) }

func (s slots) put(from, to string) {
	s.t.Helper()
	command(s.t, "mcopy", "-o", "-i", s.image(), from, "::"+to)
}

func (s slots) remove(path string) {
	s.t.Helper()
	command(s.t, "mdel", "-i", s.image(), "::"+path)
}

// environment is GRUB's.
func (s slots) environment() *grubenv.Block {
	s.t.Helper()
	to := filepath.Join(s.t.TempDir(), "grubenv")
	command(s.t, "mcopy", "-n", "-i", s.image(), "::/boot/grub/grubenv", to)
	b, err := grubenv.Read(to)
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

// set sets variables of GRUB's environment, in place, as a node does.
func (s slots) set(variables ...string) {
	s.t.Helper()
	old, err := s.environment().Encode()
	if err != nil {
		s.t.Fatal(err)
	}
	b := s.environment()
	for _, v := range variables {
		name, value, _ := strings.Cut(v, "=")
		if err := b.Set(name, value); err != nil {
			s.t.Fatal(err)
		}
	}
	encoded, err := b.Encode()
	if err != nil {
		s.t.Fatal(err)
	}
	at := int64(bytes.Index(read(s.t, s.path), old[:50]))
	disk, err := os.OpenFile(s.path, os.O_RDWR, 0)
	if err != nil || at < s.offset {
		s.t.Fatalf("the environment is at %d: %v", at, err)
	}
	defer disk.Close()
	if _, err := disk.WriteAt(encoded, at); err != nil {
		s.t.Fatal(err)
	}
}

// boots boots the disk, and holds which slot it was and whether as a trial.
func (s slots) boots(firmware []string, slot string, trial bool) *console {
	s.t.Helper()
	out := run(s.t, "", "", append(firmware, device("disk", s.path)...)...)
	line := " " + out.commandLine() + " "
	if !strings.Contains(line, " croft.slot="+slot+" ") || strings.Contains(line, " croft.trial ") != trial {
		s.t.Errorf("the command line is %q, must have slot %s, a trial: %v", line, slot, trial)
	}
	return out
}

// TestTrial holds that a trial boots once, by BIOS and by UEFI, and that GRUB's and croft's environment are one.
func TestTrial(t *testing.T) {
	folder := bootFolder(t)
	for _, kind := range []string{"BIOS", "UEFI"} {
		t.Run(kind, func(t *testing.T) {
			s, f := newSlots(t, folder), firmware(t, kind)
			s.set("trial=b", `args=croft.farm=7 croft.name=x`)
			if line := s.boots(f, "b", true).commandLine(); !strings.Contains(line, " croft.farm=7 croft.name=x") {
				t.Errorf("the command line is %q", line)
			}
			b := s.environment()
			if trial, ok := b.Get("trial"); ok {
				t.Errorf("the trial is still there: %q", trial)
			}
			if slot, _ := b.Get("slot"); slot != "a" {
				t.Errorf("the slot is %q", slot)
			}
			if args, _ := b.Get("args"); args != "croft.farm=7 croft.name=x" {
				t.Errorf("the arguments are %q", args)
			}
			s.boots(f, "a", false)
			s.set("slot=b")
			s.boots(f, "b", false)
			part := filepath.Join(t.TempDir(), "part")
			p := diskTable(32 << 20).Partitions[1]
			write(t, part, read(t, s.path)[p.Start*gpt.Sector:(p.Start+p.Sectors)*gpt.Sector])
			command(t, "fsck.fat", "-n", part)
		})
	}
}

// TestBadSlot holds what GRUB does with slots that don't boot, and with a trial whose end can't be written.
func TestBadSlot(t *testing.T) {
	folder := bootFolder(t)
	t.Run("no kernel", func(t *testing.T) {
		s := newSlots(t, folder)
		s.remove("/croft/a/vmlinuz")
		s.boots(nil, "b", false)
	})
	for _, kind := range []string{"BIOS", "UEFI"} {
		t.Run("a trial of a damaged kernel "+kind, func(t *testing.T) {
			s := newSlots(t, folder)
			s.put(filepath.Join(folder, "root.squashfs"), "/croft/b/vmlinuz")
			s.set("trial=b")
			s.boots(firmware(t, kind), "a", false)
		})
	}
	t.Run("no initrd", func(t *testing.T) {
		s := newSlots(t, folder)
		s.remove("/croft/a/initrd")
		s.boots(nil, "b", false)
	})
	t.Run("a damaged initrd", func(t *testing.T) {
		s := newSlots(t, folder)
		content := read(t, s.path)
		entry := bytes.Index(content, []byte("INITRD     ")) // in the folder of slot a: its size is larger than what it has
		binary.LittleEndian.PutUint32(content[entry+28:], 8<<20)
		write(t, s.path, content)
		// QEMU ends when the machine starts again.
		out := start(t, "", "", device("disk", s.path)...)
		if trial, _ := s.environment().Get("trial"); trial != "b" {
			t.Errorf("the next boot's slot is %q\n%s", trial, out)
		}
		s.boots(nil, "b", true)
	})
	t.Run("a disk that can't be written", func(t *testing.T) {
		s := newSlots(t, folder)
		s.set("trial=b")
		out := run(t, "", "", device("virtio, read-only", s.path)...)
		if line := out.commandLine(); !strings.Contains(line, "croft.slot=a ") || strings.Contains(line, "croft.trial") {
			t.Errorf("the command line is %q", line)
		}
	})
}

// TestMenu takes the third entry of the menu on the serial port, and what a person adds in croft.cfg.
func TestMenu(t *testing.T) {
	s := newSlots(t, bootFolder(t))
	config := filepath.Join(t.TempDir(), "croft.cfg")
	write(t, config, []byte("set args=\"$args croft.farm=8\"\nset timeout=60\n"))
	s.put(config, "/boot/grub/croft.cfg")
	out := run(t, "recovery", "\x0e\x0e\r", device("disk", s.path)...) // Ctrl-N goes down
	if line := out.commandLine(); !strings.Contains(line, " croft.slot=a croft.recovery ") || !strings.HasSuffix(strings.TrimSpace(line), " croft.farm=8") {
		t.Errorf("the command line is %q", line)
	}
}

// TestIPXE lets iPXE fetch the script and what it names from a server on this machine, by BIOS and by UEFI.
func TestIPXE(t *testing.T) {
	folder := bootFolder(t)
	script := string(read(t, filepath.Join(folder, Script)))
	// The operator wants a new image to be tried: it is half there.
	tried := strings.Replace(script, "#chain ", "chain ", 1)
	write(t, filepath.Join(folder, Script), []byte(tried))
	if err := os.Mkdir(filepath.Join(folder, "image-new"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, "image-new", Script), []byte(strings.Replace(script, "sleep 10", "sleep 1", 1)))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.FileServer(http.Dir(folder))}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	script = fmt.Sprintf("http://10.0.2.2:%d/%s", listener.Addr().(*net.TCPAddr).Port, Script)
	for _, kind := range []string{"BIOS", "UEFI"} {
		t.Run(kind, func(t *testing.T) {
			args := []string{"-netdev", "user,id=net,bootfile=" + script, "-device", "virtio-net-pci,netdev=net,romfile="}
			if kind == "BIOS" {
				args = append(args, "-kernel", "/boot/ipxe.lkrn")
			} else {
				args = append(args, firmware(t, kind)...)
				args = append(args, device("disk", ipxeDisk(t))...)
			}
			out := run(t, "", "", args...)
			if kind == "UEFI" { // Debian 12's iPXE for UEFI puts no files into the initramfs: the package comment says so
				return
			}
			for _, name := range []string{"root.squashfs", "image.json", "image.json.sig"} {
				want := fmt.Sprintf("IMAGE: %s -r--r--r-- %s\n", name, sum(t, filepath.Join(folder, name)))
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is not in\n%s", want, out)
				}
			}
		})
	}
}

// ipxeDisk is a FAT file system with iPXE for UEFI, which asks DHCP for its script.
func ipxeDisk(t *testing.T) string {
	t.Helper()
	disk := filepath.Join(t.TempDir(), "ipxe")
	command(t, "mkfs.vfat", "-C", disk, "8192")
	for _, dir := range []string{"/EFI", "/EFI/BOOT"} {
		command(t, "mmd", "-i", disk, "::"+dir)
	}
	command(t, "mcopy", "-i", disk, "/boot/ipxe.efi", "::/EFI/BOOT/BOOTX64.EFI")
	return disk
}
