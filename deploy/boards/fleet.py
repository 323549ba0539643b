"""The board of workers and devices: what each does and uses, which tasks wait and why, what went wrong."""

from boards import annotations, fleet_tasks, links, work_panels
from boards.board import Board, Place, Section, Variable
from boards.fleet_tasks import WORKERS, of_instances
from boards.held_devices import held_devices
from boards.panels import Panel, graph, number, timeline
from boards.queries import FROM_MS, TO_MS, curves, latest, promql
from boards.style import BLUE, GREEN, ORANGE, SHARE, series
from boards.tables import table

MAX_DEVICES = 40


def board() -> Board:
    """Returns the board."""
    waits = (work_panels.waiting_tasks(), work_panels.wait_for_a_device())
    return Board(
        uid=links.FLEET,
        description="Workers and their devices: what they do, which tasks wait, what failed.",
        sections=[
            Section("Now", [*(Place(panel, 4, 4) for panel in _numbers()), Place(_devices(), 24, 9)]),
            Section("Devices over time", [Place(_timeline(), 24, 10), *(Place(p, 12, 8) for p in _use())]),
            Section("Who waits, and why", [*(Place(p, 12, 8) for p in waits), Place(_waiting(), 24, 8)]),
            Section(
                "What went wrong",
                [*(Place(p, 8, 8) for p in fleet_tasks.failures()), Place(fleet_tasks.unfinished(), 24, 9)],
            ),
            Section("Hosts and workers", [*(Place(p, 8, 8) for p in _hosts()), Place(_workers(), 24, 8)]),
            Section(
                "Tasks and artifacts",
                [*(Place(p, 8, 8) for p in fleet_tasks.tasks()), Place(fleet_tasks.types(), 24, 8)],
            ),
            Section(
                "Services and instructions",
                [*(Place(p, 8, 8) for p in fleet_tasks.services()), Place(fleet_tasks.ready(), 8, 8)],
            ),
        ],
        variables=[
            Variable(
                "worker", "Worker", "SELECT worker_id FROM workers ORDER BY gone_at DESC NULLS FIRST, 1", True
            ),
            Variable(
                "instance",
                "Instance",
                f"label_values({series('trackside.worker.running.tasks')}, instance)",
                all_values=True,
                prometheus=True,
            ),
        ],
        annotations=[annotations.workers(), annotations.searches(), annotations.restarts()],
        span="now-6h",
    )


def _numbers() -> list[Panel]:
    return [
        number(
            "Workers",
            "Workers that send heartbeats.",
            latest('sum(trackside.scheduler.fleet.workers{state="present"})'),
        ),
        work_panels.lost_workers(),
        number(
            "Busy devices",
            "Share of the devices of live workers that have a task.",
            latest(
                "sum(trackside.scheduler.busy.devices) / (sum(trackside.scheduler.busy.devices) + "
                "sum(trackside.scheduler.free.devices))"
            ),
        ),
        number(
            "Tasks that fit a free device",
            "They wait although a free device fits them now: more than a moment of this is a fault.",
            latest('sum(trackside.scheduler.queue.tasks{reason="device_free"})'),
            steps=((None, GREEN), (10, ORANGE)),
        ),
        work_panels.unschedulable_tasks(),
        work_panels.out_of_memory(),
    ]


def _devices() -> Panel:
    return table(
        "Devices now",
        "With the task that was assigned last. Reserved is what the scheduler holds for tasks.",
        f"""SELECT worker_id, device_id, kind, name, state, tasks, reserved_bytes, memory_bytes, task_id,
        stream_id, attempt_status, since AS since_at, unhealthy FROM devices WHERE {WORKERS}
        ORDER BY worker_id, device_id LIMIT 500""",
        """worker_id 150 worker > worker | device_id 80 device | kind 60 | name 120 | state 80 ! |
        tasks 60 | reserved_bytes 90 reserved | memory_bytes 90 memory | task_id 220 task > trial |
        stream_id 190 stream > search:stream_id | attempt_status 95 ! attempt | since_at 155 since |
        unhealthy""",
    )


def _timeline() -> Panel:
    return timeline(
        "Device timeline",
        f"The share of each interval in which tasks held the device, of the first {MAX_DEVICES} devices of "
        f"the workers.",
        curves(
            held_devices(
                WORKERS,
                f"greatest(1000, ({TO_MS} - {FROM_MS}) / 120)",
                f"""(worker_id, device_id) IN (
                    SELECT worker_id, device_id FROM devices WHERE {WORKERS} ORDER BY 1, 2 LIMIT {MAX_DEVICES}
                )""",
            )
        ),
        unit=SHARE,
        steps=((None, "#d8d9da"), (0.001, "super-light-blue"), (0.5, "light-blue"), (0.9, BLUE)),
    )


def _use() -> list[Panel]:
    return [
        graph(
            "Time in use of devices",
            "The share of the time that tasks held each device: right also for tasks of milliseconds.",
            promql(
                f"rate({of_instances('trackside.worker.device_busy.seconds')}[rate])",
                "{{instance}} {{device}}",
            ),
        ),
        graph(
            "Cores in use",
            "Of a GPU the sampled use of its cores; of a CPU slot the processor time of its tasks, 1 is "
            "one core.",
            promql(
                of_instances("trackside.worker.device_utilisation.ratio"), "{{instance}} {{device}} sampled"
            ),
            promql(
                f"rate({of_instances('trackside.worker.device_processor.seconds')}[rate])",
                "{{instance}} {{device}} processor",
            ),
        ),
        graph(
            "Memory of devices",
            "In use and reserved, and what there is.",
            promql(of_instances("trackside.worker.device_memory.bytes"), "{{instance}} {{device}} in use"),
            promql(
                of_instances("trackside.worker.device_reserved.bytes"), "{{instance}} {{device}} reserved"
            ),
            promql(of_instances("trackside.worker.device_total.bytes"), "{{instance}} {{device}} size"),
        ),
        graph(
            "Tasks on devices",
            "Tasks that have a process and the device.",
            promql(of_instances("trackside.worker.device.tasks"), "{{instance}} {{device}}"),
        ),
    ]


def _waiting() -> Panel:
    return table(
        "Waiting tasks",
        "The longest waiting 100, those that no worker can run first.",
        f"""SELECT task_id, stream_id, task_type, queue, kind, devices, priority, attempts,
            extract(epoch FROM now() - queued_at) AS waiting_s, unschedulable, not_before,
            {links.span("queued_at", "ended_at")} FROM tasks WHERE state = 'queued'
            ORDER BY unschedulable IS NULL, queued_at LIMIT 100""",
        """task_id 240 task > trial+time | stream_id 200 stream > search:stream_id |
        task_type 120 type | queue 100 | kind 60 | devices 65 | priority 65 | attempts 70 |
        waiting_s 90 waiting | unschedulable why no worker can run it | not_before 160 next try |
        (from_ms) | (to_ms)""",
        none="No task waits",
    )


def _hosts() -> list[Panel]:
    return [
        graph(
            "Processors of hosts",
            "1 is all cores of a host.",
            promql(of_instances("trackside.worker.host_processor.ratio"), "{{instance}}"),
            maximum=1,
        ),
        graph(
            "Memory of hosts",
            "What processes could still get, and what there is.",
            promql(of_instances("trackside.worker.host_available.bytes"), "{{instance}} available"),
            promql(of_instances("trackside.worker.host_memory.bytes"), "{{instance}} size"),
        ),
        graph(
            "Workers",
            "By state.",
            promql("sum by (state) (trackside.scheduler.fleet.workers)"),
            style="steps",
            statuses=("present", "left", "lost"),
        ),
    ]


def _workers() -> Panel:
    return table(
        "Workers",
        "Newest first. One that left or was lost stays in the list.",
        """SELECT worker_id, host, status, memory_bytes, max_tasks, array_to_string(queues, ', ')
        AS queues, array_to_string(task_types, ', ') AS task_types, joined_at, gone_at FROM workers
        ORDER BY gone_at DESC NULLS FIRST, joined_at DESC LIMIT 200""",
        """worker_id 200 worker > worker | host 200 | status 90 ! | memory_bytes 90 memory |
        max_tasks 90 | queues 150 | task_types | joined_at 160 joined | gone_at 160 gone""",
    )
