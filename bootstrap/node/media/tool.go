package media

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// tool runs a program. Nothing of this machine's settings, time zone or time gets into what it makes.
func (b *builder) tool(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = b.work
	cmd.Env = []string{
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "TZ=UTC", "HOME=" + b.work, "TMPDIR=" + b.work, "MTOOLSRC=/dev/null",
		"SOURCE_DATE_EPOCH=" + strconv.FormatInt(epoch().Unix(), 10),
	}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		text := strings.TrimSpace(said.String())
		if len(text) > 2000 {
			text = text[len(text)-2000:]
		}
		return fmt.Errorf("cannot run %s (Debian packages %s): %w: %s", name, strings.Join(BuildPackages(), " "), err, text)
	}
	return nil
}
