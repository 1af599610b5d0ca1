package imagebuild

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// DebianRelease is the number of this machine's Debian, whose packages are taken.
func DebianRelease(file string) (string, error) {
	fields, err := ReadVariables(file)
	if err != nil {
		return "", err
	}
	if fields["ID"] != "debian" || fields["VERSION_ID"] == "" {
		return "", fmt.Errorf("cannot take packages: this machine has %q %q, not a release of Debian", fields["ID"], fields["VERSION_ID"])
	}
	return fields["VERSION_ID"], nil
}

// ReadVariables reads a file with lines NAME=VALUE, whose values may be in quotes.
func ReadVariables(file string) (map[string]string, error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	out := map[string]string{}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), "="); ok {
			out[name] = strings.Trim(value, `"'`)
		}
	}
	return out, lines.Err()
}
