package program

import (
	"debug/elf"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/croft-edge/croft/pkg/node"
)

// machines are the ELF machines whose programs run in a container on an architecture. The
// seccomp profile kills 32 bit programs.
func machines(architecture string) []elf.Machine {
	switch architecture {
	case "amd64":
		return []elf.Machine{elf.EM_X86_64}
	case "arm64":
		return []elf.Machine{elf.EM_AARCH64}
	case "riscv64":
		return []elf.Machine{elf.EM_RISCV}
	}
	return nil
}

// longestInterpreter is the longest path of a loader in bytes.
const longestInterpreter = 4096

// binary checks that an ELF file is for this machine, and that its loader is there.
func (i image) binary(name string, file *os.File, depth int) error {
	program, err := elf.NewFile(file)
	if err != nil {
		return node.Errorf(node.Invalid, "cannot start %q: it is damaged: %w", name, err)
	}
	known := machines(runtime.GOARCH)
	fits := len(known) == 0
	for _, m := range known {
		fits = fits || program.Machine == m && program.Class == elf.ELFCLASS64
	}
	if !fits || program.Type != elf.ET_EXEC && program.Type != elf.ET_DYN {
		return node.Errorf(node.Invalid, "cannot start %q: it is a %s of %s (%s), not a program for %s", name, program.Type, program.Machine, program.Class, runtime.GOARCH)
	}
	for _, part := range program.Progs {
		if part.Type != elf.PT_INTERP || part.Filesz > longestInterpreter {
			continue
		}
		raw, err := io.ReadAll(part.Open())
		if err != nil {
			return node.Errorf(node.Invalid, "cannot start %q: it is damaged: %w", name, err)
		}
		loader := strings.TrimRight(string(raw), "\x00")
		if err := i.runnable(loader, depth-1); err != nil {
			return node.Errorf(node.Invalid, "cannot start %q: its loader can't be: %w", name, err)
		}
	}
	return nil
}
