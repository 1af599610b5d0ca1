package broker

import (
	"bufio"
	"fmt"
	"github.com/croft-edge/croft/pkg/bus/transport"
	"io"
	"strconv"
	"strings"
)

const (
	// maxCommandArguments is how many words a command may have.
	maxCommandArguments = 64
	// maxWord is the size of a word that isn't a frame, and of a line.
	maxWord = 512
)

// newCommandReader holds no more than a line; words are read into their own space.
func newCommandReader(r io.Reader) *bufio.Reader { return bufio.NewReaderSize(r, maxWord) }

// readCommand reads one command of redis' protocol: an array of bulk strings.
// At most one word may be as large as a frame.
func readCommand(r *bufio.Reader) ([][]byte, error) {
	n, err := readLength(r, '*', maxCommandArguments)
	if err != nil {
		return nil, err
	}
	words := make([][]byte, 0, n)
	large := false
	for range n {
		size, err := readLength(r, '$', transport.MaxFrame)
		if err != nil {
			return nil, err
		}
		if size > maxWord {
			if large {
				return nil, fmt.Errorf("protocol: only one word may be longer than %d bytes", maxWord)
			}
			large = true
		}
		word := make([]byte, size+2)
		if _, err := io.ReadFull(r, word); err != nil {
			return nil, err
		}
		if string(word[size:]) != "\r\n" {
			return nil, fmt.Errorf("protocol: a word doesn't end where it should")
		}
		words = append(words, word[:size])
	}
	return words, nil
}

// readLength reads a line of mark and a number from 0 to limit.
func readLength(r *bufio.Reader, mark byte, limit int) (int, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	text, ok := strings.CutSuffix(string(line), "\r\n")
	if !ok || len(text) < 2 || len(text) > 10 || text[0] != mark {
		return 0, fmt.Errorf("protocol: expected %q and a number, got %.16q", mark, line)
	}
	n, err := strconv.Atoi(text[1:])
	if err != nil || n < 0 || n > limit {
		return 0, fmt.Errorf("protocol: expected %q and a number from 0 to %d, got %q", mark, limit, text)
	}
	return n, nil
}

func appendBulk(b []byte, word []byte) []byte {
	b = append(b, '$')
	b = strconv.AppendInt(b, int64(len(word)), 10)
	b = append(b, "\r\n"...)
	b = append(b, word...)
	return append(b, "\r\n"...)
}

func appendArray(b []byte, n int) []byte {
	b = append(b, '*')
	b = strconv.AppendInt(b, int64(n), 10)
	return append(b, "\r\n"...)
}

func appendInt(b []byte, n int) []byte {
	b = append(b, ':')
	b = strconv.AppendInt(b, int64(n), 10)
	return append(b, "\r\n"...)
}

// appendError is for texts of ours: they hold no line breaks.
func appendError(b []byte, code, format string, args ...any) []byte {
	text := fmt.Sprintf(format, args...)
	return append(b, "-"+code+" "+text+"\r\n"...)
}

const (
	respOK        = "+OK\r\n"
	respNullArray = "*-1\r\n"
	respNull      = "$-1\r\n"
)
