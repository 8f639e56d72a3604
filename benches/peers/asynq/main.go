// Adds tasks to an asynq queue and works them off. Prints one line for `run`.
//
//	asynq PORT WORKERS JOBS
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

const (
	queue    = "default"
	deadline = 120 * time.Second
)

var payload = []byte(strings.Repeat("c", 150))

type bench struct {
	workers int
	opt     asynq.RedisClientOpt
	server  *redis.Client
}

// figures are jobs in a second, and microseconds of the server's for each.
type figures struct{ rate, cpu float64 }

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "asynq:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 3 {
		return errors.New("usage: asynq PORT WORKERS JOBS")
	}
	workers, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	jobs, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	addr := "127.0.0.1:" + args[0]
	b := bench{workers, asynq.RedisClientOpt{Addr: addr}, redis.NewClient(&redis.Options{Addr: addr})}
	defer b.server.Close()
	// As the other peer: the first round warms up.
	if _, _, err := b.round(ctx, (jobs+3)/4); err != nil {
		return err
	}
	added, processed, err := b.round(ctx, jobs)
	if err != nil {
		return err
	}
	fmt.Println("asynq", workers, added.rate, added.cpu, processed.rate, processed.cpu)
	return nil
}

func (b bench) round(ctx context.Context, jobs int) (added, processed figures, err error) {
	if err = b.server.FlushAll(ctx).Err(); err != nil {
		return
	}
	if added, err = b.measured(ctx, jobs, func() error { return b.add(ctx, jobs) }); err != nil {
		return
	}
	processed, err = b.workOff(ctx, jobs)
	return
}

// add has each worker add tasks one by one, through a client of its own: asynq has no call that adds several.
func (b bench) add(ctx context.Context, jobs int) error {
	var next atomic.Int64
	failed := make([]error, b.workers)
	var group sync.WaitGroup
	for worker := range b.workers {
		group.Add(1)
		go func() {
			defer group.Done()
			client := asynq.NewClient(b.opt)
			defer client.Close()
			for failed[worker] == nil && next.Add(1) <= int64(jobs) {
				_, failed[worker] = client.EnqueueContext(ctx, asynq.NewTask("page", payload))
			}
		}()
	}
	group.Wait()
	return errors.Join(failed...)
}

func (b bench) workOff(ctx context.Context, jobs int) (figures, error) {
	inspector := asynq.NewInspector(b.opt)
	defer inspector.Close()
	handled := make(chan struct{})
	var count atomic.Int64
	handler := asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		if count.Add(1) == int64(jobs) {
			close(handled)
		}
		return nil
	})
	crew := asynq.NewServer(b.opt, asynq.Config{Concurrency: b.workers, LogLevel: asynq.ErrorLevel})
	defer crew.Shutdown()
	return b.measured(ctx, jobs, func() error {
		if err := crew.Start(handler); err != nil {
			return err
		}
		select {
		case <-handled:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d jobs were done: %w", count.Load(), jobs, ctx.Err())
		}
		return completed(ctx, inspector, jobs)
	})
}

// completed waits for the last tasks to be acknowledged, which happens after their handlers have returned.
func completed(ctx context.Context, inspector *asynq.Inspector, jobs int) error {
	for {
		info, err := inspector.GetQueueInfo(queue)
		switch {
		case err != nil:
			return err
		case info.Size == 0 && info.Processed == jobs && info.Failed == 0:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%d jobs are left, %d failed: %w", info.Size, info.Failed, ctx.Err())
		}
		time.Sleep(time.Millisecond)
	}
}

func (b bench) measured(ctx context.Context, jobs int, work func() error) (figures, error) {
	before, err := b.cpu(ctx)
	if err != nil {
		return figures{}, err
	}
	start := time.Now()
	if err := work(); err != nil {
		return figures{}, err
	}
	seconds := time.Since(start).Seconds()
	after, err := b.cpu(ctx)
	return figures{float64(jobs) / seconds, (after - before) / float64(jobs)}, err
}

// cpu is the processor time that the server has used, in microseconds.
func (b bench) cpu(ctx context.Context) (float64, error) {
	info, err := b.server.Info(ctx, "cpu").Result()
	if err != nil {
		return 0, err
	}
	us := 0.0
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name != "used_cpu_user_main_thread" && name != "used_cpu_sys_main_thread" {
			continue
		}
		seconds, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, err
		}
		us += seconds * 1e6
	}
	return us, nil
}
